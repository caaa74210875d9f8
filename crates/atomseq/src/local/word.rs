//! A word that sequences change.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A word in eight bytes, also where a word has four. Sequences change it by its address; Rust code
/// reads it here, which is one plain load.
#[repr(C, align(8))]
pub(super) struct SequenceWord(AtomicUsize);

impl SequenceWord {
    /// A place that holds zero.
    pub(super) const fn zero() -> SequenceWord {
        SequenceWord(AtomicUsize::new(0))
    }

    /// The word, as it is now.
    #[inline]
    pub(super) fn word(&self) -> usize {
        // Relaxed: whoever else changes it does so on this thread, in an interruption.
        self.0.load(Ordering::Relaxed)
    }
}

/// The address of a structure, for its sequences: they may change whatever of it is in
/// [`SequenceWord`]s or [`UnsafeCell`](std::cell::UnsafeCell)s, for as long as the structure is
/// borrowed.
#[inline]
pub(super) fn address<S>(structure: &S) -> usize {
    (&raw const *structure).expose_provenance()
}

/// Refuses a capacity that no array can have, when the structure is compiled.
pub(super) const fn check_capacity(capacity: usize) {
    assert!(
        capacity > 0,
        "a capacity of zero holds nothing: ask for at least one"
    );
}

/// As [`check_capacity`], where positions wrap around by masking.
pub(super) const fn check_power_of_two(capacity: usize) {
    check_capacity(capacity);
    assert!(
        capacity.is_power_of_two(),
        "the capacity must be a power of two: ask for the next one, `usize::next_power_of_two` \
         tells it"
    );
}
