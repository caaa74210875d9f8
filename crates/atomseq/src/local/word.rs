//! A word that sequences change.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A word in eight bytes, even where `usize` has four. Sequences change it by its address; Rust
/// code reads it with one plain load.
#[repr(C, align(8))]
pub(super) struct SequenceWord(AtomicUsize);

impl SequenceWord {
    /// Creates a word that holds zero.
    pub(super) const fn zero() -> SequenceWord {
        SequenceWord(AtomicUsize::new(0))
    }

    /// Returns the current value.
    #[inline]
    pub(super) fn word(&self) -> usize {
        // Relaxed: only handlers on this thread change the word concurrently, so there is nothing
        // to order.
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns the address of a structure for its sequences. While the structure is borrowed, they may
/// change its [`SequenceWord`]s and what is in its [`UnsafeCell`](std::cell::UnsafeCell)s.
#[inline]
pub(super) fn address<S>(structure: &S) -> usize {
    (&raw const *structure).expose_provenance()
}

/// Rejects a capacity of zero at compile time.
pub(super) const fn check_capacity(capacity: usize) {
    assert!(
        capacity > 0,
        "a capacity of zero holds nothing: ask for at least one"
    );
}

/// Rejects a capacity that is not a power of two at compile time. Positions wrap around by masking.
pub(super) const fn check_power_of_two(capacity: usize) {
    check_capacity(capacity);
    assert!(
        capacity.is_power_of_two(),
        "the capacity must be a power of two: ask for `usize::next_power_of_two` of it"
    );
}
