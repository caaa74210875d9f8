//! Fallible allocation with the global allocator: returns `None` where `Box` and `Arc` would abort
//! the process.

use std::alloc::{Layout, alloc, alloc_zeroed};
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::type_stable::Descriptor;

/// Moves a value into a box. Drops the value and returns `None` if there is no memory.
pub(crate) fn boxed<T>(value: T) -> Option<Box<T>> {
    const { assert!(size_of::<T>() > 0, "an allocation has a size") };
    // SAFETY: the layout has a size above zero, as the assertion checks.
    let memory = NonNull::new(unsafe { alloc(Layout::new::<T>()) })?.cast::<T>();
    // SAFETY: the memory was just allocated with the layout of `T`.
    unsafe { memory.write(value) };
    // SAFETY: the memory came from the global allocator with the layout of `T`, and holds a `T`.
    Some(unsafe { Box::from_raw(memory.as_ptr()) })
}

/// Allocates zeroed descriptors. Pages that the system provides as zeros are not touched.
pub(crate) fn zeros<D: Descriptor>(count: usize) -> Option<Box<[D]>> {
    let layout = Layout::array::<D>(count).ok()?;
    if layout.size() == 0 {
        return Some(Box::default());
    }
    // SAFETY: the layout has a size above zero, checked above.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    let all = NonNull::slice_from_raw_parts(memory.cast::<D>(), count);
    // SAFETY: the memory came from the global allocator with the layout of this slice, and zeros
    // are a valid `D`.
    Some(unsafe { Box::from_raw(all.as_ptr()) })
}

/// A reference-counted value, dropped by the last owner: an `Arc` without weak references.
pub(crate) struct Shared<T>(NonNull<Counted<T>>);

struct Counted<T> {
    value: T,
    owners: AtomicUsize,
}

// SAFETY: owners on several threads share the value, which needs `T: Sync`. Any of them may be the
// last and drop it, which needs `T: Send`.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: a shared owner gives `&T`, which needs `T: Sync`. It may be cloned, and the clone dropped
// on this thread, which needs `T: Send`.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Creates the first owner. Drops the value and returns `None` if there is no memory.
    pub(crate) fn new(value: T) -> Option<Shared<T>> {
        let owners = AtomicUsize::new(1);
        let counted = Box::leak(boxed(Counted { value, owners })?);
        Some(Shared(NonNull::from(counted)))
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: `self` is an owner, so the value is alive, and it is only shared until the last
        // owner drops it.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        // Relaxed: this owner keeps the value alive. The clone passes to another thread by
        // synchronization of its own.
        if self.counted().owners.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            // Aborts before leaked owners make the count wrap around.
            abort();
        }
        Shared(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.counted().value
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Release: orders this owner's accesses before the drop of the value. Acquire: in the last
        // owner, pairs with the Release of every other.
        if self.counted().owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: made from a leaked box, and this was the last owner, so nothing else refers
            // to it.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Debug)]
    struct Count(AtomicU64);

    // SAFETY: one atomic word, for which zero is always valid.
    unsafe impl Descriptor for Count {}

    #[test]
    fn what_there_is_memory_for_is_there() {
        assert_eq!(boxed([1, 2, 3]).as_deref(), Some(&[1, 2, 3]));
        let words = zeros::<Count>(100).unwrap();
        assert_eq!(words.len(), 100);
        assert!(words.iter().all(|word| word.0.load(Ordering::Relaxed) == 0));
        assert!(zeros::<Count>(0).unwrap().is_empty());
        assert!(zeros::<Count>(usize::MAX / 8).is_none());
    }

    /// Four threads clone and drop 1,000 times each.
    #[test]
    fn the_last_owner_drops_the_value() {
        struct Noting<'a>(&'a Mutex<u32>, u32);
        impl Drop for Noting<'_> {
            fn drop(&mut self) {
                *self.0.lock().unwrap() += self.1;
            }
        }
        let dropped = Mutex::new(0);
        let shared = Shared::new(Noting(&dropped, 7)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let own = shared.clone();
                scope.spawn(move || {
                    for _ in 0..1000 {
                        assert_eq!(own.clone().1, 7);
                    }
                });
            }
        });
        assert_eq!(*dropped.lock().unwrap(), 0);
        drop(shared);
        assert_eq!(*dropped.lock().unwrap(), 7);
    }
}
