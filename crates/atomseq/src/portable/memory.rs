//! Memory from the system, never from the global allocator, which may be built on areas. On Unix it
//! does not come from the system's allocator either, which a signal handler may have interrupted.

use std::ptr::NonNull;

const PAGE: usize = 4096;

/// Maps `bytes` of zeroed, page-aligned memory. Returns `None` if there is none or `bytes` is 0.
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    match bytes {
        0 => None,
        _ => system::map(bytes),
    }
}

/// Unmaps memory that [`map`] returned. Returns `false` if the system refuses; the memory then
/// stays as it is.
///
/// # Safety
/// `start` and `bytes` must be those of one `map`, and nothing may use the memory any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the contract is the same.
    unsafe { system::unmap(start, bytes) }
}

#[cfg(unix)]
mod system {
    use std::ptr::{self, NonNull};

    pub fn map(bytes: usize) -> Option<NonNull<u8>> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: this requests a new anonymous mapping at an address of the system's choice, so it
        // affects no existing memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        match start {
            libc::MAP_FAILED => None,
            _ => NonNull::new(start.cast()),
        }
    }

    /// # Safety
    /// As for `super::unmap`.
    pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: by the contract, this is a whole mapping of this size that nothing uses.
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
        // SAFETY: the size is not 0: `super::map` checks it.
        NonNull::new(unsafe { System.alloc_zeroed(layout) })
    }

    /// # Safety
    /// As for `super::unmap`.
    pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: `map` allocated with this very layout, which was valid, and nothing uses the
        // memory any more.
        unsafe {
            System.dealloc(
                start.as_ptr(),
                Layout::from_size_align_unchecked(bytes, PAGE),
            )
        };
        true
    }
}

/// Returns the min alignment of [`map`] in bytes.
pub fn page_size() -> usize {
    PAGE
}

/// Does nothing and returns `false`: not every system can discard memory and keep its addresses.
///
/// # Safety
/// None needed.
pub unsafe fn discard(_start: NonNull<u8>, _bytes: usize) -> bool {
    false
}
