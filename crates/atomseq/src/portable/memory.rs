//! Memory from the system's allocator: never from the global one, which may be built on areas.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;

const PAGE: usize = 4096;

/// `bytes` of zeroed, page-aligned memory, or `None` when there is none (or `bytes` is 0).
pub fn map(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, PAGE).ok()?;
    if bytes == 0 {
        return None;
    }
    // SAFETY: the size is not 0.
    NonNull::new(unsafe { System.alloc_zeroed(layout) })
}

/// Gives back what [`map`] returned.
///
/// # Safety
/// `start` and `bytes` are those of one `map`, and nothing uses the memory any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: `map` made this very layout and checked it.
    unsafe {
        System.dealloc(
            start.as_ptr(),
            Layout::from_size_align_unchecked(bytes, PAGE),
        )
    };
}

/// What [`map`] aligns to.
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
