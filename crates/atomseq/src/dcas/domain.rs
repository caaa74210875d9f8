//! A domain: the words, and the version number that counts their modifications.

use std::fmt;
use std::ops::Deref;

use super::versioned_words::VersionedWords;
use super::{Cell, Change, Changed, Covered, Mechanism, StableWord};

/// Words that change together, and the number of their modifications, the version
/// ([GC96](crate#papers), section 5.1).
///
/// `T` holds the words: a [`Cell`], an array, boxed slice or structure of them ([`Covered`]). The
/// domain owns `T` and dereferences to it; its operations take references to cells inside it. The
/// scope is [`Machine`](crate::scope::Machine). [The module](super) states the progress and cost of
/// each [`Mechanism`].
///
/// ```
/// use atomseq::dcas::{Change, Covered, Domain, Cell};
///
/// #[derive(Covered)]
/// struct Account { balance: Cell, entries: Cell }
/// let account = Domain::new(Account { balance: Cell::new(10), entries: Cell::new(0) });
///
/// let [balance, entries] = account.load_all([&account.balance, &account.entries]);
/// account.compare_exchange_pair(
///     Change::of(&account.balance, balance, balance + 5),
///     Change::of(&account.entries, entries, entries + 1),
/// )?;
/// assert_eq!(account.load(&account.balance), 15);
/// # Ok::<(), atomseq::dcas::Changed>(())
/// ```
#[repr(C)]
pub struct Domain<T: Covered> {
    versioned: VersionedWords,
    covered: T,
}

/// A version of a domain: 1 for a new domain, and 1 more for each modification. Returned by
/// [`snapshot`](Domain::snapshot) and [`version`](Domain::version).
///
/// A version is only a number. A version of another domain, or of an earlier domain at the same
/// address, is taken for this domain's version of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub(super) u64);

impl Version {
    /// Returns the version as a number.
    #[inline]
    pub fn number(self) -> u64 {
        self.0
    }
}

impl<T: Covered> Domain<T> {
    /// Creates a domain of these words.
    ///
    /// Its first operation starts atomseq, and chooses the [`Mechanism`] of the process if none is
    /// chosen yet. In a signal handler that is safe only if atomseq has been started, because
    /// start-up may allocate: call [`mechanism`](Domain::mechanism) before handlers are installed.
    ///
    /// ```
    /// use atomseq::dcas::{Cell, Change, Domain};
    ///
    /// static PAIR: Domain<[Cell; 2]> = Domain::new([Cell::new(1), Cell::new(2)]);
    ///
    /// PAIR.compare_exchange_pair(Change::of(&PAIR[0], 1, 2), Change::of(&PAIR[1], 2, 1))?;
    /// assert_eq!(PAIR.load_all([&PAIR[0], &PAIR[1]]), [2, 1]);
    /// # Ok::<(), atomseq::dcas::Changed>(())
    /// ```
    pub const fn new(covered: T) -> Domain<T> {
        let versioned = VersionedWords::new();
        Domain { versioned, covered }
    }

    /// Creates a domain whose [`compare_exchange_all`](Domain::compare_exchange_all) changes more
    /// than two words. It uses [`Mechanism::Kcas`], whatever mechanism the process has chosen.
    ///
    /// ```
    /// use atomseq::dcas::{Change, Domain, Cell};
    ///
    /// let ring: Domain<[Cell; 3]> = Domain::wide(std::array::from_fn(|place| Cell::new(place as u64)));
    /// let turn = [0, 1, 2].map(|place| Change::of(&ring[place], place as u64, (place as u64 + 1) % 3));
    /// ring.compare_exchange_all(&turn)?;
    /// assert_eq!(ring.load_all([&ring[0], &ring[1], &ring[2]]), [1, 2, 0]);
    /// # Ok::<(), atomseq::dcas::Changed>(())
    /// ```
    pub const fn wide(covered: T) -> Domain<T> {
        let versioned = VersionedWords::with_kcas();
        Domain { versioned, covered }
    }

    /// Creates a domain that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons. Falls back to k-CAS if OS-assisted DCAS does not work here.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(covered: T, mechanism: Mechanism) -> Domain<T> {
        let versioned = VersionedWords::with_mechanism(mechanism);
        Domain { versioned, covered }
    }

    /// Returns the words for exclusive access. Before that, an operation that an exited thread left
    /// unfinished is rolled back or completed. The call counts as a modification.
    pub fn get_mut(&mut self) -> &mut T {
        self.versioned.count_modification();
        if self.mechanism() == Mechanism::Kcas {
            // A word may hold a late reference of k-CAS, left by a thread that has exited. If the
            // caller moves the word to a domain that uses OS-assisted DCAS, loads there would take
            // the reference for a value.
            self.covered.each_word(&mut Cell::resolve);
        }
        &mut self.covered
    }
}

impl<T: Covered> Domain<T> {
    /// Leaves the domain in the state in which a thread is stopped indefinitely inside
    /// `compare_exchange_pair`, after both words were changed. For tests of recovery. Returns
    /// `false` under k-CAS, where there is nothing to recover.
    ///
    /// # Safety
    ///
    /// The domain is not moved until a later operation has rolled the change back. The log holds
    /// the addresses of the words, and this function returns, unlike the stopped thread that it
    /// stands for.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub unsafe fn abandon(&self, first: Change<'_>, second: Change<'_>) -> bool {
        self.check_pair(first, second);
        self.versioned.abandon(first, second)
    }

    /// Leaves the domain in the state in which a thread is stopped while it holds the lock and has
    /// changed nothing.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_lock(&self) -> bool {
        self.versioned.abandon_lock()
    }

    /// After one of the two above: leaves the state in which a second thread is stopped while it
    /// revokes the first.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_claim(&self) {
        self.versioned.abandon_claim();
    }

    /// Returns the mechanism that this domain uses. Chooses it, as an operation does.
    pub fn mechanism(&self) -> Mechanism {
        self.versioned.mechanism()
    }

    /// Returns the value of a word. Costs no atomic instruction; see
    /// [`snapshot`](Domain::snapshot).
    ///
    /// # Panics
    ///
    /// If the word is not inside the domain.
    #[inline]
    #[track_caller]
    pub fn load(&self, word: &Cell) -> u64 {
        self.snapshot([word]).0[0]
    }

    /// Returns the values of several words as of one time, as [`snapshot`](Domain::snapshot) does.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain.
    #[inline(always)] // a call takes as long as the loads
    #[track_caller]
    pub fn load_all<const N: usize>(&self, words: [&Cell; N]) -> [u64; N] {
        self.snapshot(words).0
    }

    /// Returns the values of several words as of one time, and the version at that time, for
    /// [`store_pair_if`](Domain::store_pair_if).
    ///
    /// Costs no atomic instruction, unless an operation of another thread is under way or was
    /// stopped. The call then waits for it, revokes it or helps it.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain.
    #[inline(always)] // as `load_all`
    #[track_caller]
    pub fn snapshot<const N: usize>(&self, words: [&Cell; N]) -> ([u64; N], Version) {
        for word in words {
            self.check(word.stable());
        }
        self.versioned.snapshot(words.map(Cell::stable))
    }

    /// Returns the version: the number of modifications plus 1 (GC96, section 5.3).
    ///
    /// These are modifications:
    ///
    /// * each [`compare_exchange`](Domain::compare_exchange),
    ///   [`compare_exchange_pair`](Domain::compare_exchange_pair) and
    ///   [`store_pair_if`](Domain::store_pair_if) that succeeds, even if the words keep their
    ///   values;
    /// * each [`compare_exchange_all`](Domain::compare_exchange_all) that changes a word, but not
    ///   one that only compares;
    /// * each [`get_mut`](Domain::get_mut).
    ///
    /// Under [`Mechanism::Assisted`], operations that found a word changed, and operations that
    /// were interrupted and rolled back, may count too.
    ///
    /// Costs as much as a [`snapshot`](Domain::snapshot) of no word.
    #[inline]
    pub fn version(&self) -> Version {
        // The version of a stopped holder would not do: `store_pair_if` fails there, and a caller
        // that retries at it would never succeed.
        self.versioned.begin()
    }

    /// Changes both words if both have their old values: DCAS, `CAS2` in S92.
    ///
    /// Under [`Mechanism::Assisted`] it is obstruction-free and costs one atomic instruction. Under
    /// [`Mechanism::Kcas`] it is lock-free and costs six. [The module](super#mechanisms) has the
    /// details.
    ///
    /// # Errors
    ///
    /// [`Changed`]: a word had another value. Nothing was changed.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain, both are the same, or a value is larger than
    /// [`Cell::MAX`].
    #[inline]
    #[track_caller]
    pub fn compare_exchange_pair(
        &self,
        first: Change<'_>,
        second: Change<'_>,
    ) -> Result<(), Changed> {
        self.check_pair(first, second);
        // SAFETY: `check_pair` verified that both words lie inside this domain and are different.
        // They live as long as the domain, and only its `versioned` changes them.
        let done = unsafe { self.versioned.compare_exchange_pair(first, second) };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Changes one word if it has its old value. Costs one atomic instruction under
    /// [`Mechanism::Assisted`], and four under [`Mechanism::Kcas`].
    ///
    /// # Errors
    ///
    /// [`Changed`]: the word had another value.
    ///
    /// # Panics
    ///
    /// As for [`compare_exchange_pair`](Domain::compare_exchange_pair).
    #[inline]
    #[track_caller]
    pub fn compare_exchange(&self, change: Change<'_>) -> Result<(), Changed> {
        self.check_change(change);
        // SAFETY: `check_change` verified that the word lies inside this domain. It lives as long
        // as the domain, and only its `versioned` changes it.
        let done = unsafe { self.versioned.compare_exchange(change) };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Changes all words if every word has its old value. A word whose old and new value are equal
    /// ([`Change::compare`]) is only compared, at no atomic instruction: the version proves that it
    /// is unchanged.
    ///
    /// Any number of words can be compared. How many can be changed depends on the domain:
    ///
    /// * A domain created by [`wide`](Domain::wide) changes up to
    ///   [`MAX_CHANGES`](super::MAX_CHANGES) words. The operation is lock-free, and costs 2k + 2
    ///   atomic instructions for k changed words: two for each word, and two for the version.
    /// * A domain that uses [`Mechanism::Assisted`] changes up to two words, with the progress and
    ///   cost of [`compare_exchange_pair`](Domain::compare_exchange_pair).
    /// * A domain created by [`new`](Domain::new) in a process that uses [`Mechanism::Kcas`]
    ///   behaves like a wide one.
    ///
    /// To change more than two words, create the domain with `wide`. Any other domain changes more
    /// than two only in a process that happens to use k-CAS, and panics elsewhere: do not rely on
    /// it.
    ///
    /// ```
    /// use atomseq::dcas::{Change, Changed, Covered, Domain, Cell};
    ///
    /// #[derive(Covered)]
    /// struct Shelf { open: Cell, left: Cell, sold: Cell }
    /// let shelf = Domain::new(Shelf { open: Cell::new(1), left: Cell::new(9), sold: Cell::new(0) });
    ///
    /// // Sells one item if the shelf is open.
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
    /// [`Changed`]: a word had another value. Nothing was changed.
    ///
    /// # Panics
    ///
    /// If a word is not inside the domain, a word is changed twice, a value is larger than
    /// [`Cell::MAX`], or more words change than this domain can change at once.
    #[track_caller]
    pub fn compare_exchange_all(&self, changes: &[Change<'_>]) -> Result<(), Changed> {
        let changing = changes.iter().filter(|change| change.old != change.new);
        let max = match self.mechanism() {
            Mechanism::Assisted => 2,
            Mechanism::Kcas => super::MAX_CHANGES,
        };
        assert!(
            changing.count() <= max,
            "this domain changes no more than {max} words at once: `Domain::wide` makes one that changes {}",
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
        // SAFETY: the checks above verified that all words lie inside this domain, that the changed
        // ones are different, and that they are at most `max`. They live as long as the domain, and
        // only its `versioned` changes them.
        let done = unsafe { self.versioned.compare_exchange_all(changes) };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Stores to both words if the domain is still at `version`: compare-and-double-swap (GC96,
    /// note 5).
    ///
    /// Everything read at `version` then still holds, so the words themselves are not compared. One
    /// atomic instruction under [`Mechanism::Assisted`], six under [`Mechanism::Kcas`].
    ///
    /// # Errors
    ///
    /// [`Changed`]: the domain is at another version, and nothing was changed. Under
    /// [`Mechanism::Assisted`] this operation itself may have advanced the version, if it was
    /// interrupted and rolled back. In both cases, read again and retry.
    ///
    /// # Panics
    ///
    /// As for [`compare_exchange_pair`](Domain::compare_exchange_pair).
    #[inline]
    #[track_caller]
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
        // SAFETY: `check_pair` verified that both words lie inside this domain and are different,
        // and that the values are at most `Cell::MAX`. The words live as long as the domain, and
        // only its `versioned` changes them.
        let done = unsafe { self.versioned.store_pair_if(version, first, second) };
        if done { Ok(()) } else { Err(Changed) }
    }

    /// Replaces the value of a word by the result of `update` (S92, figure 5.1). Returns `Ok` with
    /// the previous value, or `Err` with the current one if `update` returns `None`.
    ///
    /// `update` may be called more than once; only the result of its last call is stored. An
    /// `update` that itself changes this word on each call, to a different value, is retried
    /// indefinitely. Each attempt costs a [`load`](Domain::load) and a
    /// [`compare_exchange`](Domain::compare_exchange).
    ///
    /// # Panics
    ///
    /// If the word is not inside the domain, or a value is larger than [`Cell::MAX`].
    #[track_caller]
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
    #[track_caller]
    fn check(&self, word: &StableWord) {
        let covered = &raw const self.covered as usize;
        let offset = word.address().wrapping_sub(covered);
        // A word outside the domain could be changed by others without this domain's lock or
        // version.
        assert!(
            offset < size_of::<T>() || self.covered.owns_elsewhere(word.address()),
            "the word is not one of this domain's"
        );
    }

    #[inline]
    #[track_caller]
    fn check_change(&self, change: Change<'_>) {
        self.check(change.word);
        assert!(
            (change.old | change.new) <= Cell::MAX,
            "a covered word holds values below 2^63"
        );
    }

    #[inline]
    #[track_caller]
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
    /// Drops the words in the state that [`get_mut`](Domain::get_mut) returns: no operation is
    /// unfinished.
    fn drop(&mut self) {
        // Without destructors, no code reads the words after this.
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
