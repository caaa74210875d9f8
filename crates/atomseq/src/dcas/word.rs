//! The word that a domain covers: only the domain's operations change it.

use std::fmt;

use crate::sync::AtomicU64;

use super::kcas;

/// A word that is changed through its [`Domain`](super::Domain) and in no other way: it has no
/// compare-and-swap of its own.
///
/// Holds values below 2^63 ([`Word::MOST`]): numbers, or addresses of this process.
///
/// ```compile_fail,E0599
/// use std::sync::atomic::Ordering;
///
/// let word = atomseq::dcas::Word::new(1);
/// word.compare_exchange(1, 2, Ordering::SeqCst, Ordering::SeqCst);
/// ```
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// The largest value.
    pub const MOST: u64 = kcas::MARK - 1;

    /// A word with this value.
    ///
    /// # Panics
    ///
    /// If the value is larger than [`MOST`](Word::MOST).
    pub const fn new(value: u64) -> Word {
        assert!(
            value <= Word::MOST,
            "a covered word holds values below 2^63"
        );
        Word(AtomicU64::new(value))
    }

    /// The value, of a word that nobody else has.
    pub fn get_mut(&mut self) -> u64 {
        kcas::load(&self.0)
    }

    /// Sets a word that nobody else has.
    ///
    /// # Panics
    ///
    /// If the value is larger than [`MOST`](Word::MOST).
    pub fn set(&mut self, value: u64) {
        *self = Word::new(value);
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

impl Default for Word {
    fn default() -> Word {
        Word::new(0)
    }
}

impl fmt::Debug for Word {
    /// Its value at some time, which nothing relates to those of other words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Word").field(&kcas::load(&self.0)).finish()
    }
}

impl Drop for Word {
    fn drop(&mut self) {
        // Under k-CAS the last operation's descriptor is bound to the word.
        kcas::release(*self.0.get_mut());
    }
}
