//! A domain: words, and the version number that tells when any of them changed.

use std::fmt;
use std::ops::Deref;

use super::assisted::{self, Line};
use super::mechanism::{Mechanism, mechanism};
use super::{Change, Changed, Word, kcas};
use crate::sync::AtomicU64;

/// Words that change together, and the version number of all of them (GC96 5.1).
///
/// `T` is whatever holds the words: a [`Word`], an array or a structure of them. The domain owns it;
/// its operations take words inside it. Scope `Machine`; [the module](super) says what progress and
/// cost each [`Mechanism`] has.
///
/// ```
/// use atomseq::dcas::{Change, Domain, Word};
///
/// struct Account { balance: Word, entries: Word }
/// let account = Domain::new(Account { balance: Word::new(10), entries: Word::new(0) });
///
/// let [balance, entries] = account.snapshot([&account.balance, &account.entries]).0;
/// account.exchange(
///     Change::of(&account.balance, balance, balance + 5),
///     Change::of(&account.entries, entries, entries + 1),
/// )?;
/// assert_eq!(account.load(&account.balance), 15);
/// # Ok::<(), atomseq::dcas::Changed>(())
/// ```
#[repr(C)]
pub struct Domain<T> {
    line: Line,
    /// The version, under k-CAS.
    version: Word,
    mechanism: Mechanism,
    covered: T,
}

/// A version of a domain: how many modifications it has had. From
/// [`snapshot`](Domain::snapshot) and [`version`](Domain::version).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(super) u64);

impl Version {
    /// As a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl<T> Domain<T> {
    /// A domain with these words. Starts atomseq up, and chooses the [`Mechanism`] unless that is done.
    pub fn new(covered: T) -> Domain<T> {
        Domain::made(covered, mechanism())
    }

    /// A domain that uses this mechanism whatever was chosen, to test and to compare; k-CAS if the other one does not
    /// work here.
    #[doc(hidden)]
    pub fn forced(covered: T, mechanism: Mechanism) -> Domain<T> {
        let works = mechanism == Mechanism::Kcas || super::mechanism::assisted_works();
        Domain::made(covered, if works { mechanism } else { Mechanism::Kcas })
    }

    fn made(covered: T, mechanism: Mechanism) -> Domain<T> {
        Domain {
            line: Line::new(),
            version: Word::new(1),
            mechanism,
            covered,
        }
    }

    /// Leaves the domain as a thread does that is stopped for ever inside `exchange`, with both words changed: to test
    /// recovery. `false` under k-CAS, where nothing is left to recover.
    ///
    /// # Safety
    ///
    /// The domain is not moved until somebody has recovered: unlike a thread that is stopped, this returns.
    #[doc(hidden)]
    pub unsafe fn abandon(&self, first: Change<'_>, second: Change<'_>) -> bool {
        self.check_change(first);
        self.check_change(second);
        let assisted = self.mechanism == Mechanism::Assisted;
        if assisted {
            self.line.abandon(first.assisted(), second.assisted());
        }
        assisted
    }

    /// Which mechanism it uses.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// The words, of a domain that nobody else has.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.covered
    }

    /// The value of a word.
    ///
    /// # Panics
    ///
    /// If the word is not inside the domain.
    #[inline]
    pub fn load(&self, word: &Word) -> u64 {
        self.snapshot([word]).0[0]
    }

    /// The values that words had at one time, and the version at that time.
    ///
    /// Costs no atomic read-modify-write unless an operation stands in the way.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain.
    #[inline]
    pub fn snapshot<const N: usize>(&self, words: [&Word; N]) -> ([u64; N], Version) {
        for word in words {
            self.check(word);
        }
        let (values, version) = match self.mechanism {
            // SAFETY: references are valid.
            Mechanism::Assisted => unsafe {
                self.line
                    .read(words.map(|word| word.raw() as *const AtomicU64))
            },
            Mechanism::Kcas => loop {
                let version = kcas::load(self.version.raw());
                let values = words.map(|word| kcas::load(word.raw()));
                // Every change of a word changes the version with it, and no version comes back.
                if kcas::load(self.version.raw()) == version {
                    break (values, version);
                }
            },
        };
        (values, Version(version))
    }

    /// How many modifications there were, a useful and sometimes necessary statistic (GC96 5.3).
    ///
    /// Under [`Mechanism::Assisted`] operations that found a word changed, and ones that were interrupted
    /// and undone, may count as well.
    #[inline]
    pub fn version(&self) -> Version {
        Version(match self.mechanism {
            Mechanism::Assisted => self.line.version(),
            Mechanism::Kcas => kcas::load(self.version.raw()),
        })
    }

    /// DCAS (S92's `CAS2`): changes both words if both have their old values.
    ///
    /// # Errors
    ///
    /// [`Changed`]: one of them had another value, and nothing was changed.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain, both are the same, or a value is larger than [`Word::MOST`].
    #[inline]
    pub fn exchange(&self, first: Change<'_>, second: Change<'_>) -> Result<(), Changed> {
        self.check_change(first);
        self.check_change(second);
        assert!(
            first.word.address() != second.word.address(),
            "both changes are of the same word"
        );
        let done = match self.mechanism {
            // SAFETY: the references are valid, the words different, and covered words change in no other way.
            Mechanism::Assisted => unsafe {
                self.line.exchange(first.assisted(), second.assisted())
            },
            Mechanism::Kcas => self.exchange_kcas([first, second]),
        };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// The same for one word.
    ///
    /// # Errors
    ///
    /// [`Changed`]: it had another value.
    ///
    /// # Panics
    ///
    /// As for [`exchange`](Domain::exchange).
    #[inline]
    pub fn exchange_one(&self, change: Change<'_>) -> Result<(), Changed> {
        self.check_change(change);
        let done = match self.mechanism {
            // SAFETY: as for two; the other word is the line's own.
            Mechanism::Assisted => unsafe {
                self.line.exchange(change.assisted(), self.line.no_part())
            },
            Mechanism::Kcas => self.exchange_kcas([change]),
        };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Compare-and-double-swap (GC96 note 5): sets both words if the domain is still at this version, and
    /// so what was read then still holds; the words need not be compared.
    ///
    /// # Errors
    ///
    /// [`Changed`]: the version is another one. It may be so because this very operation was
    /// interrupted and undone: read again.
    ///
    /// # Panics
    ///
    /// As for [`exchange`](Domain::exchange).
    #[inline]
    pub fn exchange_since(
        &self,
        version: Version,
        first: (&Word, u64),
        second: (&Word, u64),
    ) -> Result<(), Changed> {
        let [first, second] = [first, second].map(|(word, new)| Change::of(word, 0, new));
        self.check_change(first);
        self.check_change(second);
        assert!(
            first.word.address() != second.word.address(),
            "both changes are of the same word"
        );
        let done = match self.mechanism {
            // SAFETY: as for `exchange`.
            Mechanism::Assisted => unsafe {
                self.line
                    .exchange_since(version.0, first.assisted(), second.assisted())
            },
            Mechanism::Kcas => {
                let words = [first.word, second.word];
                let ([a, b], now) = self.snapshot(words);
                now == version
                    && self.try_kcas(
                        version.0,
                        [Change { old: a, ..first }, Change { old: b, ..second }],
                    )
            }
        };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Replaces the value of a word by what `update` makes of it (S92 figure 5.1); returns the value before.
    ///
    /// `update` may be called more than once; only what its last call returned is stored.
    ///
    /// # Panics
    ///
    /// If the word is not inside the domain, or a value is larger than [`Word::MOST`].
    pub fn atomic_update(&self, word: &Word, mut update: impl FnMut(u64) -> u64) -> u64 {
        loop {
            let old = self.load(word);
            if self
                .exchange_one(Change::of(word, old, update(old)))
                .is_ok()
            {
                return old;
            }
        }
    }

    #[inline(never)]
    fn exchange_kcas<const N: usize>(&self, changes: [Change<'_>; N]) -> bool {
        loop {
            let (values, version) = self.snapshot(changes.map(|change| change.word));
            if values != changes.map(|change| change.old) {
                return false;
            }
            // It fails only if another operation succeeded.
            if self.try_kcas(version.0, changes) {
                return true;
            }
        }
    }

    fn try_kcas<const N: usize>(&self, version: u64, changes: [Change<'_>; N]) -> bool {
        let version = Change::of(&self.version, version, version + 1).kcas();
        let parts: [kcas::Part; 3] = std::array::from_fn(|index| match changes.get(index) {
            Some(change) => change.kcas(),
            None => version,
        });
        // SAFETY: the words are the domain's, and whoever is in an operation that shares a word with this one borrows the
        // domain meanwhile. Covered words change in no other way.
        unsafe {
            match N {
                1 => kcas::exchange([parts[0], version]),
                _ => kcas::exchange([parts[0], parts[1], version]),
            }
        }
    }

    #[inline]
    fn check(&self, word: &Word) {
        let covered = &raw const self.covered as usize;
        let offset = word.address().wrapping_sub(covered);
        // Nobody could keep the others away from a word that is not the domain's.
        assert!(
            offset < size_of::<T>(),
            "the word is not one of this domain's"
        );
    }

    #[inline]
    fn check_change(&self, change: Change<'_>) {
        self.check(change.word);
        assert!(
            (change.old | change.new) <= Word::MOST,
            "a covered word holds values below 2^63"
        );
    }
}

impl<T> Deref for Domain<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.covered
    }
}

impl<T: Default> Default for Domain<T> {
    fn default() -> Domain<T> {
        Domain::new(T::default())
    }
}

impl<T> fmt::Debug for Domain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("version", &self.version().number())
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

impl Change<'_> {
    #[inline(always)]
    fn assisted(&self) -> assisted::Part {
        assisted::Part {
            word: self.word.address(),
            old: self.old,
            new: self.new,
        }
    }

    #[inline(always)]
    fn kcas(&self) -> kcas::Part {
        kcas::Part {
            word: self.word.raw(),
            old: self.old,
            new: self.new,
        }
    }
}
