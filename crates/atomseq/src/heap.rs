//! Memory from the global allocator that may be refused: what returns `None` here ends the process
//! in `Box` and `Arc`.

use std::alloc::{Layout, alloc, alloc_zeroed};
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::type_stable::Descriptor;

/// Moves a value into a box; drops it if there is no memory.
pub(crate) fn boxed<T>(value: T) -> Option<Box<T>> {
    const { assert!(size_of::<T>() > 0, "an allocation has a size") };
    // SAFETY: the layout is not empty.
    let memory = NonNull::new(unsafe { alloc(Layout::new::<T>()) })?.cast::<T>();
    // SAFETY: just allocated for such a value.
    unsafe { memory.write(value) };
    // SAFETY: allocated with the layout of such a value, and written.
    Some(unsafe { Box::from_raw(memory.as_ptr()) })
}

/// Zeros. Memory that the system gives as zeros is not touched before it is used.
pub(crate) fn zeros<D: Descriptor>(count: usize) -> Option<Box<[D]>> {
    let layout = Layout::array::<D>(count).ok()?;
    if layout.size() == 0 {
        return Some(Box::default());
    }
    // SAFETY: the layout is not empty.
    let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    let all = NonNull::slice_from_raw_parts(memory.cast::<D>(), count);
    // SAFETY: allocated with the layout of such a slice, and zeros are a descriptor.
    Some(unsafe { Box::from_raw(all.as_ptr()) })
}

/// A value with several owners, the last of which drops it: an `Arc` without weak references.
pub(crate) struct Shared<T>(NonNull<Counted<T>>);

struct Counted<T> {
    value: T,
    owners: AtomicUsize,
}

// SAFETY: owners on several threads share the value, and any of them may be the last, and drops it.
unsafe impl<T: Send + Sync> Send for Shared<T> {}
// SAFETY: a shared owner gives a shared value, and may be cloned.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// `None`: there is no memory, and the value was dropped.
    pub(crate) fn new(value: T) -> Option<Shared<T>> {
        let owners = AtomicUsize::new(1);
        let counted = Box::leak(boxed(Counted { value, owners })?);
        Some(Shared(NonNull::from(counted)))
    }

    fn counted(&self) -> &Counted<T> {
        // SAFETY: it lives as long as it has an owner, and is only shared until then.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        // Relaxed: this owner keeps the value there, whatever the number is seen as.
        if self.counted().owners.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            // Owners were leaked until the number is about to wrap.
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
        // Release: what this owner did with the value comes before it is dropped. Acquire: in the
        // last owner, pairs with the release of each other.
        if self.counted().owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: made of a box, and this was the last owner.
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

    // SAFETY: an atomic word.
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

    /// Four threads, each of which clones and drops 1,000 times.
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
