//! The command's global allocator: the system's, which can say how much a piece of code asked for
//! and kept. An unmetered call costs one thread-local load more. Where the system refuses memory,
//! the process ends in a sentence.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::memory;

thread_local! {
    // Constant and without a destructor: no lazy initialisation, so it may be used inside the
    // allocator.
    static METER: Cell<Option<i64>> = const { Cell::new(None) };
}

/// The allocator.
pub struct Metered;

#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// Runs `work`; returns the bytes that it allocated on this thread and did not free.
pub fn kept_by<R>(work: impl FnOnce() -> R) -> (R, i64) {
    let outer = METER.replace(Some(0));
    let result = work();
    let bytes = METER.replace(outer).unwrap_or(0);
    (result, bytes)
}

/// Ends the process if the system refused a block.
#[inline]
fn granted(block: *mut u8, bytes: usize) -> *mut u8 {
    if block.is_null() {
        memory::refused(bytes);
    }
    block
}

#[inline]
fn count(bytes: i64) {
    METER.with(|meter| {
        if let Some(kept) = meter.get() {
            meter.set(Some(kept + bytes));
        }
    });
}

/// No layout is larger than `isize::MAX` bytes.
fn size(bytes: usize) -> i64 {
    bytes as i64
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(size(layout.size()));
        // SAFETY: the caller keeps GlobalAlloc's contract, which is the callee's.
        granted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(size(layout.size()));
        // SAFETY: as in `alloc`.
        granted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-size(layout.size()));
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(size(new_size) - size(layout.size()));
        // SAFETY: as in `alloc`.
        granted(unsafe { System.realloc(block, layout, new_size) }, new_size)
    }
}

#[cfg(test)]
mod tests {
    use super::kept_by;

    #[test]
    fn what_is_freed_does_not_count() {
        let (kept, bytes) = kept_by(|| {
            drop(vec![0_u8; 1_000]);
            let mut kept = Vec::<u8>::with_capacity(100);
            kept.reserve_exact(300);
            kept
        });
        assert_eq!(bytes, kept.capacity() as i64);
        assert_eq!(kept_by(|| drop(kept)).1, -300);
    }
}
