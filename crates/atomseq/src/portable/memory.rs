//! Memory from the system: never from the global allocator, which may be built on areas; and on
//! Unix not from the system's either, for a signal handler may have interrupted that.

use std::ptr::NonNull;

const PAGE: usize = 4096;

/// `bytes` of zeroed, page-aligned memory, or `None` when there is none (or `bytes` is 0).
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    match bytes {
        0 => None,
        _ => system::map(bytes),
    }
}

/// Gives back what [`map`] returned. `false`: the system would not take it, and it stays as it is.
///
/// # Safety
/// `start` and `bytes` are those of one `map`, and nothing uses the memory any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { system::unmap(start, bytes) }
}

#[cfg(unix)]
mod system {
    use std::ptr::{self, NonNull};

    pub fn map(bytes: usize) -> Option<NonNull<u8>> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a new mapping, which nothing depends on.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        match start {
            libc::MAP_FAILED => None,
            _ => NonNull::new(start.cast()),
        }
    }

    /// # Safety
    /// As for `super::unmap`.
    pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: a mapping of this size, which nothing uses any more.
        unsafe { libc::munmap(start.as_ptr().cast(), bytes) == 0 }
    }
}

#[cfg(not(unix))]
mod system {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::ptr::NonNull;

    use super::PAGE;

    pub fn map(bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the size is not 0, as `super::map` has seen.
        NonNull::new(unsafe { System.alloc_zeroed(layout) })
    }

    /// # Safety
    /// As for `super::unmap`.
    pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: `map` made this very layout and checked it.
        unsafe {
            System.dealloc(
                start.as_ptr(),
                Layout::from_size_align_unchecked(bytes, PAGE),
            )
        };
        true
    }
}

/// What [`map`] aligns to, at least.
pub fn page_size() -> usize {
    PAGE
}

/// Gives nothing back: not every system does that and keeps the addresses.
///
/// # Safety
/// None needed.
pub unsafe fn discard(_start: NonNull<u8>, _bytes: usize) -> bool {
    false
}
