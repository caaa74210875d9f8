//! What [`Stack`](super::Stack) and [`Queue`](super::Queue) have in common: values are stored as
//! words, and their number is bounded.
//!
//! Each structure has its own push and pop, where the compiler knows the store. Generic ones here
//! would compile to other instructions.

use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;

use super::{Error, check_capacity};
use crate::or_panic::OrPanic;
use crate::word::Invariant;
use crate::{AsWord, drops};

/// A bounded store of words.
pub(super) trait Words {
    /// Returns the maximum number of words.
    fn capacity(&self) -> usize;

    /// Returns the number of words at some time during the call.
    fn len(&self) -> usize;
}

/// Values in a store of words.
pub(super) struct Bounded<T: AsWord, W: Words> {
    pub(super) words: W,
    values: Invariant<T>,
}

// SAFETY: the store holds `T` values, which move between threads only by value and are `Send`.
unsafe impl<T: AsWord + Send, W: Words + Send> Send for Bounded<T, W> {}
// SAFETY: shared access only moves values in and out, and they are `Send`. The store `W` is `Sync`.
unsafe impl<T: AsWord + Send, W: Words + Sync> Sync for Bounded<T, W> {}

impl<T: AsWord, W: Words> Bounded<T, W> {
    /// Creates an empty store in the words that `make` returns. `make` receives a valid capacity,
    /// and returns `None` if there is no memory for it.
    pub(super) fn new(
        capacity: usize,
        make: impl FnOnce(usize) -> Option<W>,
    ) -> Result<Bounded<T, W>, Error> {
        check_capacity(capacity)?;
        Ok(Bounded {
            words: make(capacity).ok_or(Error::OutOfMemory)?,
            values: PhantomData,
        })
    }

    pub(super) fn fmt(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("len", &self.words.len())
            .field("capacity", &self.words.capacity())
            .finish_non_exhaustive()
    }
}

/// Drops the values of a structure that is being dropped.
pub(super) fn clear<T: AsWord, S>(structure: &S, pop: fn(&S) -> Option<T>) {
    if needs_drop::<T>() {
        drops::each(|| pop(structure).is_some());
    }
}

/// Creates a structure with room for exactly these values, or for one if there are none, and fills
/// it.
#[track_caller]
pub(super) fn filled<T: AsWord, S>(
    values: impl IntoIterator<Item = T>,
    with_capacity: fn(usize) -> Result<S, Error>,
    push: fn(&S, T) -> Result<(), T>,
) -> S {
    let values: Vec<T> = values.into_iter().collect();
    let structure = with_capacity(values.len().max(1)).or_panic();
    for value in values {
        let pushed = push(&structure, value);
        debug_assert!(pushed.is_ok(), "there is room for all");
    }
    structure
}
