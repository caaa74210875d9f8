//! A value that is made at its first use, in memory of its own, so that what holds it can be a
//! `static`.
//!
//! No thread waits for another. Two threads, or a thread and its handler, may make one at the same
//! time; one exchange decides, and the other is dropped.

use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::area::SLOT_BYTES;
use super::error::Error;
use super::memory;
use crate::growth::Growth;

/// Selects the thread that makes the next value.
static GROWTH: Growth = Growth::new();

/// A value that is made once.
#[derive(Debug)]
pub(super) struct Once<T> {
    value: AtomicPtr<T>,
    /// It owns the value, and is `Send` and `Sync` if the value is. (A shared reference to it lets
    /// a thread make the value that another one drops. So `Sync` would be wrong for a value that is
    /// `Sync` and not `Send`. There is none.)
    owned: PhantomData<T>,
}

impl<T> Once<T> {
    /// Leaves the value to be made.
    pub(super) const fn new() -> Once<T> {
        const { assert!(align_of::<T>() <= SLOT_BYTES, "`memory` aligns to slots") };
        Once {
            value: AtomicPtr::new(null_mut()),
            owned: PhantomData,
        }
    }

    /// Returns the value, if it has been made.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the Release in `publish`, so the value is seen as it was made.
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: it is null, or `publish` has put a value there, which stays, and is not changed
        // by an exclusive reference, as long as `self` is borrowed.
        unsafe { value.as_ref() }
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: it is null, or `publish` has put a value there. The reference to `self` is
        // exclusive.
        unsafe { self.value.get_mut().as_mut() }
    }

    /// Returns the value. Calls `make` if it has not been made. `make` calls no code of the user.
    ///
    /// # Errors
    ///
    /// That of `make`, or [`Error::OutOfMemory`].
    #[cold]
    pub(super) fn get_or_make(&self, make: impl Fn() -> Result<T, Error>) -> Result<&T, Error> {
        let mut refused = Error::OutOfMemory;
        let made = GROWTH.find_or_grow(
            || self.get(),
            || match make() {
                Ok(value) => self.publish(value),
                Err(error) => {
                    refused = error;
                    None
                }
            },
        );
        made.ok_or(refused)
    }

    /// Puts the value into place, or drops it if another is there, and returns the one that is
    /// there. `None` if the system refuses the memory.
    fn publish(&self, value: T) -> Option<&T> {
        let own = memory::allocate(size_of::<T>())?.cast::<T>();
        // SAFETY: the memory is new, has the size of a `T`, and is aligned to a slot's size.
        unsafe { own.write(value) };
        // Release: pairs with the Acquire in `get`, also of the thread that fails here.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let exchanged = self
            .value
            .compare_exchange(null_mut(), own.as_ptr(), success, failure);
        if exchanged.is_err() {
            // SAFETY: no other thread has seen it.
            unsafe { discard(own) };
        }
        self.get()
    }
}

impl<T> Drop for Once<T> {
    fn drop(&mut self) {
        if let Some(value) = self.get_mut().map(NonNull::from) {
            // SAFETY: `publish` has put it there, and no reference to it is left.
            unsafe { discard(value) };
        }
    }
}

/// Drops a value and frees its memory.
///
/// # Safety
///
/// `publish` has written the value to memory of its own, and no reference to it is left.
unsafe fn discard<T>(value: NonNull<T>) {
    // SAFETY: the caller's promise. `publish` has allocated the memory for this size.
    unsafe {
        value.drop_in_place();
        memory::free(value.cast(), size_of::<T>());
    }
}
