//! The word that a version number covers: only operations that know the version change it.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};
use crate::type_stable::Descriptor;

use super::kcas;

/// A word that is changed through its [`Domain`](super::Domain) and in no other way: it has no
/// compare-and-swap of its own.
///
/// Holds values below 2^63 ([`Cell::MAX`]): numbers, or addresses of this process.
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
    /// The largest value.
    pub const MAX: u64 = kcas::MARK - 1;

    /// A word with this value.
    ///
    /// # Panics
    ///
    /// If the value is larger than [`MAX`](Cell::MAX).
    pub const fn new(value: u64) -> Cell {
        assert!(value <= Cell::MAX, "a covered word holds values below 2^63");
        Cell(StableWord(AtomicU64::new(value)))
    }

    /// The value, of a word that nobody else has.
    pub fn value(&mut self) -> u64 {
        kcas::load(self.raw())
    }

    /// Sets a word that nobody else has.
    ///
    /// # Panics
    ///
    /// If the value is larger than [`MAX`](Cell::MAX).
    pub fn set(&mut self, value: u64) {
        *self = Cell::new(value);
    }

    /// Puts the value itself into a word that nobody else has, where a thread that exited inside
    /// k-CAS has left a reference.
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
    /// What it holds at some time, which nothing relates to what other words hold. This may be a
    /// value that the word never has: that of an exchange under way that is rolled back.
    /// [`Domain::load`](super::Domain::load) shows values only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cell")
            .field(&kcas::load(self.raw()))
            .finish()
    }
}

/// A covered word, for descriptors in type-stable memory. Zeros are the value 0.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct StableWord(AtomicU64);

impl StableWord {
    #[inline(always)]
    pub(super) fn raw(&self) -> &AtomicU64 {
        &self.0
    }

    #[inline(always)]
    pub(super) fn address(&self) -> usize {
        &raw const self.0 as usize
    }
}

// SAFETY: an atomic word, of which every content is valid at any time.
unsafe impl Descriptor for StableWord {}

impl fmt::Debug for StableWord {
    /// Its content, be it a value or a reference of k-CAS.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StableWord").field(&self.0).finish()
    }
}
