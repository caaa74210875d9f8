//! A version number that shares its word with flags, and that covers other words by k-CAS.
//!
//! A change of the flags alone is one compare-and-swap of this word. A change of covered words is
//! k-CAS, in which this word takes the place of the version. A structure with many versions, such
//! as one in each bucket of a hash map, has no room for a
//! [`VersionedWords`](super::VersionedWords) in each.

use super::part::Part;
use super::{StableWord, kcas};
use crate::sync::{AtomicU64, Ordering, fence};

/// A word of flags and a version, which the structure arranges below [`Cell::MAX`](super::Cell).
/// All zeros is valid.
///
/// Each change of a covered word, and of anything that the flags make readable, changes the word to
/// a value that it never had. Other flags may change back and forth.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct StateWord(AtomicU64);

impl StateWord {
    /// Returns the state at a time when no k-CAS is under way. Completes one that is.
    #[inline(always)]
    pub fn begin(&self) -> u64 {
        kcas::begin(&self.0)
    }

    /// Returns the value of a covered word. It counts only if the version is still that of
    /// [`begin`](StateWord::begin).
    #[inline(always)]
    pub fn load(&self, word: &StableWord) -> u64 {
        kcas::load_acquire(word.raw())
    }

    /// Returns whether the state is unchanged, except for the flags in `other`. If so, all that was
    /// read since `begin` was current at one time.
    #[inline(always)]
    pub fn is_still(&self, state: u64, other: u64) -> bool {
        // Acquire fence: pairs with the release fence of a thread that writes where an earlier
        // state had something to read, and with the releases of k-CAS.
        fence(Ordering::Acquire);
        (self.0.load(Ordering::Relaxed) ^ state) & !other == 0
    }

    /// Changes the state from `old` to `new`, and returns whether it did.
    #[inline(always)]
    pub fn compare_exchange(&self, old: u64, new: u64) -> bool {
        // Acquire: pairs with the release of the change that led to `old`. Release: pairs with the
        // acquire in `begin` of threads that find `new`.
        self.0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Changes the state from `old` to `new`, stores to all words, and returns `true`. Returns
    /// `false`, having changed nothing, if the state is not `old`.
    ///
    /// # Safety
    ///
    /// `old` comes from [`begin`](StateWord::begin), and `new` is a value that this word never had.
    /// The words are different, and change only by this function of this state. The values are at
    /// most [`Cell::MAX`](super::Cell::MAX). All memory stays valid until no thread is in an
    /// operation on this state.
    #[inline(never)]
    pub unsafe fn exchange<const N: usize>(
        &self,
        old: u64,
        new: u64,
        words: [(&StableWord, u64); N],
    ) -> bool {
        let parts = words.map(|(word, new)| Part {
            word: word.raw(),
            old: kcas::load(word.raw()),
            new,
        });
        // SAFETY: the caller's promise covers all but the old values. These were loaded while the
        // state was `old`, before and after: `old` was loaded earlier, and covered words change
        // only together with the version.
        self.is_still(old, 0) && unsafe { kcas::exchange_to(&self.0, old, new, &parts) }
    }
}
