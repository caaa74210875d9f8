//! The word that a domain's version covers: only operations that update the version change it.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::Descriptor;

use super::kcas;

/// A word that can be changed only through its [`Domain`](super::Domain). It has no
/// compare-and-swap of its own.
///
/// It holds values below 2^63, up to [`Cell::MAX`]: numbers, or addresses of this process. The top
/// bit marks references of k-CAS.
///
/// ```compile_fail,E0599
/// use std::sync::atomic::Ordering;
///
/// let word = atomseq::dcas::Cell::new(1);
/// word.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst);
/// ```
#[repr(transparent)]
pub struct Cell(StableWord);

impl Cell {
    /// The largest value that a cell holds.
    pub const MAX: u64 = kcas::MARK - 1;

    /// Creates a cell with this value.
    ///
    /// # Panics
    ///
    /// If the value is larger than [`MAX`](Cell::MAX).
    #[track_caller]
    pub const fn new(value: u64) -> Cell {
        assert!(value <= Cell::MAX, "a covered word holds values below 2^63");
        Cell(StableWord(AtomicU64::new(value)))
    }

    /// Returns the value. Costs no atomic instruction.
    ///
    /// For a cell that is not in a domain yet, or through
    /// [`Domain::get_mut`](super::Domain::get_mut). To read a word of a domain, use
    /// [`Domain::load`](super::Domain::load).
    pub fn value(&mut self) -> u64 {
        kcas::load(self.raw())
    }

    /// Sets the value.
    ///
    /// # Panics
    ///
    /// If the value is larger than [`MAX`](Cell::MAX).
    #[track_caller]
    pub fn set(&mut self, value: u64) {
        *self = Cell::new(value);
    }

    /// Stores the value itself if the word holds a reference to a descriptor, which a thread that
    /// exited inside k-CAS may have left.
    pub(super) fn resolve(&mut self) {
        let value = self.value();
        if self.raw().load(Ordering::Relaxed) != value {
            self.set(value);
        }
    }

    #[inline(always)]
    pub(super) fn raw(&self) -> &AtomicU64 {
        self.0.raw()
    }

    #[inline(always)]
    pub(super) fn stable(&self) -> &StableWord {
        &self.0
    }
}

impl Default for Cell {
    fn default() -> Cell {
        Cell::new(0)
    }
}

impl fmt::Debug for Cell {
    /// Shows the value at some time during the call, unrelated to the values of other words. It may
    /// be a value that the word never has: one of an operation that is rolled back later.
    /// [`Domain::load`](super::Domain::load) returns real values only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cell")
            .field(&kcas::load(self.raw()))
            .finish()
    }
}

/// A covered word as it lies in type-stable memory. All zeros is the value 0.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct StableWord(AtomicU64);

impl StableWord {
    #[inline(always)]
    pub(super) fn of(word: &AtomicU64) -> &StableWord {
        // SAFETY: the type is `repr(transparent)` over an `AtomicU64`.
        unsafe { &*std::ptr::from_ref(word).cast() }
    }

    #[inline(always)]
    pub(super) fn raw(&self) -> &AtomicU64 {
        &self.0
    }

    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        &raw const self.0 as usize
    }
}

// SAFETY: one atomic word, for which every bit pattern is valid at any time.
unsafe impl Descriptor for StableWord {}

impl fmt::Debug for StableWord {
    /// Shows the content: a value, or a reference of k-CAS.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StableWord").field(&self.0).finish()
    }
}
