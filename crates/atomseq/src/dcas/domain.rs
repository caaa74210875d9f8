//! A domain: words, and the version number that tells when any of them changed.

use std::fmt;
use std::ops::Deref;

use super::versioned_words::VersionedWords;
use super::{Cell, Change, Changed, Covered, Mechanism, StableWord};

/// Words that change together, and the version number of all of them (GC96 5.1).
///
/// `T` is whatever holds the words: a [`Cell`], an array or a structure of them ([`Covered`]). The
/// domain owns it; its operations take words inside it. Scope `Machine`; [the module](super) says
/// what progress and cost each [`Mechanism`] has.
///
/// ```
/// use atomseq::dcas::{Change, Covered, Domain, Cell};
///
/// #[derive(Covered)]
/// struct Account { balance: Cell, entries: Cell }
/// let account = Domain::new(Account { balance: Cell::new(10), entries: Cell::new(0) });
///
/// let [balance, entries] = account.snapshot([&account.balance, &account.entries]).0;
/// account.compare_exchange_pair(
///     Change::of(&account.balance, balance, balance + 5),
///     Change::of(&account.entries, entries, entries + 1),
/// )?;
/// assert_eq!(account.load(&account.balance), 15);
/// # Ok::<(), atomseq::dcas::Changed>(())
/// ```
#[repr(C)]
pub struct Domain<T: Covered> {
    object: VersionedWords,
    covered: T,
}

/// A version of a domain: one more than the modifications it has had, so that a new domain is at 1.
/// From [`snapshot`](Domain::snapshot) and [`version`](Domain::version).
///
/// It is no more than a number: that of another domain, or of one that was in the same place
/// before, stands for this domain's version of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(super) u64);

impl Version {
    /// As a number.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl<T: Covered> Domain<T> {
    /// A domain with these words. Starts atomseq up, and chooses the [`Mechanism`] unless that is
    /// done.
    pub fn new(covered: T) -> Domain<T> {
        let object = VersionedWords::new();
        Domain { object, covered }
    }

    /// A domain of which [`compare_exchange_all`](Domain::compare_exchange_all) changes more than
    /// two words: by [`Mechanism::Kcas`], whatever the process has chosen for the others.
    ///
    /// ```
    /// use atomseq::dcas::{Change, Domain, Cell};
    ///
    /// let ring: Domain<[Cell; 3]> = Domain::wide(std::array::from_fn(|place| Cell::new(place as u64)));
    /// let turn = [0, 1, 2].map(|place| Change::of(&ring[place], place as u64, (place as u64 + 1) % 3));
    /// ring.compare_exchange_all(&turn)?;
    /// assert_eq!(ring.snapshot([&ring[0], &ring[1], &ring[2]]).0, [1, 2, 0]);
    /// # Ok::<(), atomseq::dcas::Changed>(())
    /// ```
    pub fn wide(covered: T) -> Domain<T> {
        Domain::with_mechanism(covered, Mechanism::Kcas)
    }

    /// A domain that uses this mechanism whatever was chosen, to test and to compare; k-CAS if the
    /// other one does not work here.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(covered: T, mechanism: Mechanism) -> Domain<T> {
        Domain::with_mechanism(covered, mechanism)
    }

    fn with_mechanism(covered: T, mechanism: Mechanism) -> Domain<T> {
        let object = VersionedWords::with_mechanism(mechanism);
        Domain { object, covered }
    }

    /// The words, of a domain that the caller owns exclusively. No exchange is half done: what a
    /// thread left that exited in the middle of one is rolled back or completed first. This counts
    /// as a modification.
    pub fn get_mut(&mut self) -> &mut T {
        self.object.count_modification();
        if self.mechanism() == Mechanism::Kcas {
            // They may go to another domain, and one of the other mechanism at that.
            self.covered.each_word(&mut Cell::resolve);
        }
        &mut self.covered
    }
}

impl<T: Covered> Domain<T> {
    /// Leaves the domain as a thread does that is stopped for ever inside `compare_exchange_pair`,
    /// with both words changed: to test recovery. `false` under k-CAS, where nothing is left to
    /// recover.
    ///
    /// # Safety
    ///
    /// The domain is not moved until somebody has recovered: unlike a thread that is stopped, this
    /// returns.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub unsafe fn abandon(&self, first: Change<'_>, second: Change<'_>) -> bool {
        self.check_pair(first, second);
        self.object.abandon(first, second)
    }

    /// The same with nothing changed yet.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_lock(&self) -> bool {
        self.object.abandon_lock()
    }

    /// After either, as a thread that was throwing the first one out and is stopped for ever as
    /// well.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_claim(&self) {
        self.object.abandon_claim();
    }

    /// Which mechanism it uses.
    pub fn mechanism(&self) -> Mechanism {
        self.object.mechanism()
    }

    /// The value of a word.
    ///
    /// # Panics
    ///
    /// If the word is not inside the domain.
    #[inline]
    pub fn load(&self, word: &Cell) -> u64 {
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
    pub fn snapshot<const N: usize>(&self, words: [&Cell; N]) -> ([u64; N], Version) {
        for word in words {
            self.check(word.stable());
        }
        self.object.snapshot(words.map(Cell::stable))
    }

    /// The version, which says how many modifications there were, a useful and sometimes necessary
    /// statistic (GC96 5.3): 1 is that of a new domain, and each one adds 1. An
    /// [`compare_exchange_pair`](Domain::compare_exchange_pair) of any kind that succeeds is a
    /// modification, also if its words keep their values; but an
    /// [`compare_exchange_all`](Domain::compare_exchange_all) that changes none of its words adds
    /// nothing. Each [`get_mut`](Domain::get_mut) is one.
    ///
    /// Under [`Mechanism::Assisted`] operations that found a word changed, and ones that were
    /// interrupted and undone, may count as well.
    #[inline]
    pub fn version(&self) -> Version {
        self.object.version()
    }

    /// DCAS (S92's `CAS2`): changes both words if both have their old values.
    ///
    /// # Errors
    ///
    /// [`Changed`]: one of them had another value, and nothing was changed.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain, both are the same, or a value is larger than
    /// [`Cell::MAX`].
    #[inline]
    pub fn compare_exchange_pair(
        &self,
        first: Change<'_>,
        second: Change<'_>,
    ) -> Result<(), Changed> {
        self.check_pair(first, second);
        // SAFETY: the words are the domain's, and so valid and covered by its object alone, and
        // different.
        let done = unsafe { self.object.compare_exchange_pair(first, second) };
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
    /// As for [`compare_exchange_pair`](Domain::compare_exchange_pair).
    #[inline]
    pub fn compare_exchange(&self, change: Change<'_>) -> Result<(), Changed> {
        self.check_change(change);
        // SAFETY: as for two.
        let done = unsafe { self.object.compare_exchange(change) };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Multi-word compare-and-swap: changes all words if each has its old value. One that has the
    /// same old and new value ([`Change::compare`]) is compared only, and costs no atomic
    /// instruction: the version tells whether it is still so.
    ///
    /// Any number of words is compared. In a domain made by [`wide`](Domain::wide), up to
    /// [`MAX_CHANGES`](super::MAX_CHANGES) are changed, lock-free, by 2k + 2 atomic instructions
    /// for k of them: two for each, and two for the version. In any other, up to two are, with the
    /// progress of [`compare_exchange_pair`](Domain::compare_exchange_pair).
    ///
    /// ```
    /// use atomseq::dcas::{Change, Changed, Covered, Domain, Cell};
    ///
    /// #[derive(Covered)]
    /// struct Shelf { open: Cell, left: Cell, sold: Cell }
    /// let shelf = Domain::new(Shelf { open: Cell::new(1), left: Cell::new(9), sold: Cell::new(0) });
    ///
    /// // One is sold, if the shelf is open.
    /// let sale = |left, sold| shelf.compare_exchange_all(&[
    ///     Change::compare(&shelf.open, 1),
    ///     Change::of(&shelf.left, left, left - 1),
    ///     Change::of(&shelf.sold, sold, sold + 1),
    /// ]);
    /// assert_eq!(sale(9, 0), Ok(()));
    /// assert_eq!(sale(9, 0), Err(Changed));
    /// ```
    ///
    /// # Errors
    ///
    /// [`Changed`]: one of them had another value, and nothing was changed.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain, is changed twice, or a value is larger than
    /// [`Cell::MAX`]; or if more words change than this domain can change at once.
    pub fn compare_exchange_all(&self, changes: &[Change<'_>]) -> Result<(), Changed> {
        let changing = changes.iter().filter(|change| change.old != change.new);
        let most = match self.mechanism() {
            Mechanism::Assisted => 2,
            Mechanism::Kcas => super::MAX_CHANGES,
        };
        assert!(
            changing.count() <= most,
            "this domain changes no more than {most} words at once: `Domain::wide` makes one that changes {}",
            super::MAX_CHANGES
        );
        for (index, change) in changes.iter().enumerate() {
            self.check_change(*change);
            let is_changed = |other: &Change<'_>| {
                other.old != other.new && other.word.address() == change.word.address()
            };
            assert!(
                change.old == change.new || !changes[..index].iter().any(is_changed),
                "two changes are of the same word"
            );
        }
        // SAFETY: the words are the domain's, and so valid and covered by its object alone; those
        // that change are different, and no more than there may be.
        let done = unsafe { self.object.compare_exchange_all(changes) };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Compare-and-double-swap (GC96 note 5): sets both words if the domain is still at this
    /// version, and so what was read then still holds; the words need not be compared.
    ///
    /// # Errors
    ///
    /// [`Changed`]: the version is another one, and nothing was changed. It may be so because this very operation was
    /// interrupted and undone: read again.
    ///
    /// # Panics
    ///
    /// As for [`compare_exchange_pair`](Domain::compare_exchange_pair).
    #[inline]
    pub fn store_pair_if(
        &self,
        version: Version,
        first: (&Cell, u64),
        second: (&Cell, u64),
    ) -> Result<(), Changed> {
        self.check_pair(
            Change::of(first.0, 0, first.1),
            Change::of(second.0, 0, second.1),
        );
        let [first, second] = [first, second].map(|(word, new)| (word.stable(), new));
        // SAFETY: as for `compare_exchange_pair`; the values are no larger than they may be.
        let done = unsafe { self.object.store_pair_if(version, first, second) };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Replaces the value of a word by what `update` returns (S92 figure 5.1). Returns `Ok` with
    /// the previous value, or `Err` with the current one if `update` returns `None`.
    ///
    /// `update` may be called more than once; only the result of its last call is stored. An
    /// `update` that itself changes this word on each call, to a different value, is retried
    /// indefinitely.
    ///
    /// # Panics
    ///
    /// If the word is not inside the domain, or a value is larger than [`Cell::MAX`].
    pub fn fetch_update(
        &self,
        word: &Cell,
        mut update: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let mut old = self.load(word);
        while let Some(new) = update(old) {
            match self.compare_exchange(Change::of(word, old, new)) {
                Ok(()) => return Ok(old),
                Err(Changed) => old = self.load(word),
            }
        }
        Err(old)
    }

    #[inline]
    fn check(&self, word: &StableWord) {
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
            (change.old | change.new) <= Cell::MAX,
            "a covered word holds values below 2^63"
        );
    }

    #[inline]
    fn check_pair(&self, first: Change<'_>, second: Change<'_>) {
        self.check_change(first);
        self.check_change(second);
        assert!(
            first.word.address() != second.word.address(),
            "both changes are of the same word"
        );
    }
}

impl<T: Covered> Drop for Domain<T> {
    /// Drops the words as [`get_mut`](Domain::get_mut) shows them: no exchange is half done.
    fn drop(&mut self) {
        // Otherwise no code looks at them any more.
        if std::mem::needs_drop::<T>() {
            self.get_mut();
        }
    }
}

impl<T: Covered> Deref for Domain<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.covered
    }
}

impl<T: Covered + Default> Default for Domain<T> {
    fn default() -> Domain<T> {
        Domain::new(T::default())
    }
}

impl<T: Covered> fmt::Debug for Domain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain")
            .field("version", &self.version().number())
            .field("mechanism", &self.mechanism())
            .finish_non_exhaustive()
    }
}
