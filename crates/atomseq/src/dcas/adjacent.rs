//! Two words side by side: double-width compare-and-swap, by the processor if it has an instruction
//! for it.

use std::fmt;

use super::part::Part;
use super::{Cell, kcas};
use crate::platform;
use crate::sync::Ordering;

/// Two words that lie side by side and change together.
///
/// The scope is `Machine`, and all operations are lock-free. On Linux, on x86-64 and AArch64, a
/// change costs one atomic instruction (`cmpxchg16b`, `casp`) if the processor has it. Elsewhere it
/// is k-CAS of two words, with six atomic instructions. Where both values fit into 64 bits,
/// [`Packed`](super::Packed) is cheaper.
///
/// ```
/// use atomseq::dcas::Adjacent;
///
/// let pair = Adjacent::new(1, 0);
/// assert_eq!(pair.compare_exchange((1, 0), (2, 1)), Ok(()));
/// assert_eq!(pair.compare_exchange((1, 0), (3, 1)), Err((2, 1)));
/// assert_eq!(pair.load(), (2, 1));
/// ```
#[repr(C, align(16))]
pub struct Adjacent {
    words: [Cell; 2],
    /// The version that covers both words, for k-CAS.
    version: Cell,
    by_hardware: bool,
}

impl Adjacent {
    /// Creates two words with these values.
    ///
    /// # Panics
    ///
    /// If a value is larger than [`Cell::MAX`].
    #[track_caller]
    pub fn new(first: u64, second: u64) -> Adjacent {
        Adjacent {
            words: [Cell::new(first), Cell::new(second)],
            version: Cell::new(0),
            by_hardware: platform::has_double_width(),
        }
    }

    /// Creates two words that use k-CAS on every processor, for tests and comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn by_kcas(first: u64, second: u64) -> Adjacent {
        let mut pair = Adjacent::new(first, second);
        pair.by_hardware = false;
        pair
    }

    /// Returns both words as of one time.
    ///
    /// Costs one atomic instruction by the processor, and none by k-CAS. To start a
    /// [`compare_exchange`](Adjacent::compare_exchange), the cheaper [`guess`](Adjacent::guess) is
    /// enough.
    pub fn load(&self) -> (u64, u64) {
        if !self.by_hardware {
            return self.snapshot().0;
        }
        let mut guess = self.guess();
        while let Err(found) = self.compare_exchange(guess, guess) {
            guess = found;
        }
        guess
    }

    /// Returns both words, each as of a time of its own. Costs two loads.
    ///
    /// By k-CAS, one may be from before a change and the other from after it until another
    /// operation has completed the change, because the thread that made it may have stopped. So a
    /// loop that waits until both words match must call [`load`](Adjacent::load).
    #[inline]
    pub fn guess(&self) -> (u64, u64) {
        match self.by_hardware {
            // Acquire: pairs with the compare-and-swap that stored the words.
            true => (
                self.words[0].raw().load(Ordering::Acquire),
                self.words[1].raw().load(Ordering::Acquire),
            ),
            false => (
                kcas::load_acquire(self.words[0].raw()),
                kcas::load_acquire(self.words[1].raw()),
            ),
        }
    }

    /// Completes a change by k-CAS that is under way, which a [`guess`](Adjacent::guess) does not.
    #[cold]
    pub(crate) fn complete(&self) {
        if !self.by_hardware {
            kcas::begin(self.version.raw());
        }
    }

    /// Changes both words if both are as expected.
    ///
    /// # Errors
    ///
    /// The current words, as of one time, if one differs. Nothing was changed.
    ///
    /// # Panics
    ///
    /// If a new value is larger than [`Cell::MAX`].
    #[inline]
    #[track_caller]
    pub fn compare_exchange(
        &self,
        expected: (u64, u64),
        new: (u64, u64),
    ) -> Result<(), (u64, u64)> {
        assert!(
            (new.0 | new.1) <= Cell::MAX,
            "a covered word holds values below 2^63"
        );
        if self.by_hardware {
            // SAFETY: `words` comes first in a structure aligned to 16 bytes, and its cells are
            // private to this type, which changes them only by this instruction. `has_double_width`
            // returned `true`.
            return unsafe {
                platform::compare_exchange_double(self.words[0].raw().as_ptr(), expected, new)
            };
        }
        self.exchange_kcas(expected, new)
    }

    #[cold]
    fn exchange_kcas(&self, expected: (u64, u64), new: (u64, u64)) -> Result<(), (u64, u64)> {
        let version = self.version.raw();
        loop {
            let (found, number) = self.snapshot();
            if found != expected {
                return Err(found);
            }
            let parts = self.parts(expected, new);
            // SAFETY: two different words of this pair, which had these values at this version.
            // Only this function changes them, and a thread in an operation on them borrows the
            // pair.
            if unsafe { kcas::exchange(version, number, &parts) } {
                return Ok(());
            }
        }
    }

    fn parts(&self, old: (u64, u64), new: (u64, u64)) -> [Part; 2] {
        let part = |word: usize, old, new| Part {
            word: self.words[word].raw(),
            old,
            new,
        };
        [part(0, old.0, new.0), part(1, old.1, new.1)]
    }

    /// Changes the first word and no more, like a thread that is stopped in a change by k-CAS.
    #[cfg(test)]
    pub(crate) fn stop_in_exchange(&self, new: (u64, u64)) {
        let (old, number) = self.snapshot();
        let parts = self.parts(old, new);
        // SAFETY: as in `exchange_kcas`. No other thread changes the pair meanwhile.
        unsafe { kcas::stop_in_exchange(self.version.raw(), number, &parts) };
    }

    /// Returns both words by k-CAS, as of one time, and the version at that time.
    fn snapshot(&self) -> ((u64, u64), u64) {
        let version = self.version.raw();
        loop {
            let number = kcas::begin(version);
            let found = self.guess();
            if kcas::is_still(version, number) {
                return (found, number);
            }
        }
    }

    /// Replaces both words by the result of `update` (S92, figure 5.1, for two words). Returns `Ok`
    /// with the previous words, or `Err` with the current ones if `update` returns `None`.
    ///
    /// `update` may be called more than once; only the result of its last call is stored. An
    /// `update` that itself changes this pair on each call is retried indefinitely. Each attempt
    /// costs a [`load`](Adjacent::load) and a [`compare_exchange`](Adjacent::compare_exchange).
    ///
    /// # Panics
    ///
    /// If a new value is larger than [`Cell::MAX`].
    #[track_caller]
    pub fn fetch_update(
        &self,
        mut update: impl FnMut((u64, u64)) -> Option<(u64, u64)>,
    ) -> Result<(u64, u64), (u64, u64)> {
        let mut old = self.load();
        while let Some(new) = update(old) {
            match self.compare_exchange(old, new) {
                Ok(()) => return Ok(old),
                Err(_) => old = self.load(),
            }
        }
        Err(old)
    }
}

impl Default for Adjacent {
    fn default() -> Adjacent {
        Adjacent::new(0, 0)
    }
}

impl fmt::Debug for Adjacent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Adjacent").field(&self.load()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_words_change_or_none() {
        for pair in [Adjacent::new(1, 2), Adjacent::by_kcas(1, 2)] {
            assert_eq!(pair.compare_exchange((1, 3), (5, 6)), Err((1, 2)));
            assert_eq!(pair.compare_exchange((2, 2), (5, 6)), Err((1, 2)));
            assert_eq!(pair.compare_exchange((1, 2), (5, 6)), Ok(()));
            assert_eq!(pair.fetch_update(|(a, b)| Some((b, a))), Ok((5, 6)));
            assert_eq!(pair.load(), (6, 5));
        }
    }

    /// The words of a guess stay those of two times until another operation completes the change.
    #[test]
    fn a_change_that_a_thread_is_stopped_in_is_completed() {
        let completed = |complete: fn(&Adjacent)| {
            let pair = Adjacent::by_kcas(1, 2);
            pair.stop_in_exchange((3, 4));
            assert_eq!([pair.guess(); 2], [(3, 2); 2]);
            complete(&pair);
            pair.guess()
        };
        assert_eq!(completed(Adjacent::complete), (3, 4));
        assert_eq!(completed(|pair| _ = pair.load()), (3, 4));
        assert_eq!(
            completed(|pair| _ = pair.compare_exchange((3, 2), (5, 5))),
            (3, 4)
        );
    }

    #[test]
    fn nothing_is_lost() {
        const EACH: usize = crate::tests::rounds(20_000);
        for pair in [Adjacent::new(0, 0), Adjacent::by_kcas(0, 0)] {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..EACH {
                            let (a, b) = pair.fetch_update(|(a, b)| Some((a + 1, b + 2))).unwrap();
                            assert_eq!(2 * a, b);
                        }
                    });
                }
            });
            assert_eq!(pair.load(), (4 * EACH as u64, 8 * EACH as u64));
        }
    }
}
