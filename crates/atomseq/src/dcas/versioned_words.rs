//! A version number (GC96, section 5.1) and the words that it covers, wherever they lie.
//! [`Domain`](super::Domain) and the structures of `nonblocking` are built on it.
//!
//! Every operation of a structure has the same form: it calls [`begin`](VersionedWords::begin),
//! reads covered words by [`load`](VersionedWords::load), and changes one or two of them by
//! [`store_pair_if`](VersionedWords::store_pair_if). If that fails, it retries from `begin`. An
//! operation that only reads is valid if [`is_still`](VersionedWords::is_still) returns `true` at
//! the end. Every change advances the version, so a word that returns to an old value (ABA) causes
//! no error.
//!
//! The same holds for words that are not covered, such as the content of a node in type-stable
//! memory, on one condition: a thread writes to the node only if it has allocated it from a
//! [`type_stable::Pool`](crate::type_stable::Pool) since the node was unlinked. Then a release
//! fence lies between the change that unlinked the node and the first store of the next owner. It
//! pairs with the acquire fence in `is_still`.

use super::assisted::RevocableLock;
use super::contention;
use super::mechanism::{Choice, Mechanism, mechanism};
use super::part::Part;
use super::{Cell, Cells, Change, StableWord, Version, kcas};
use crate::generated::RESTART_LIMIT;
use crate::sync::Ordering;

/// A version number, and the mechanism by which it changes together with the words that it covers.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct VersionedWords {
    /// Under OS-assisted DCAS: the version, the lock and the log.
    lock: RevocableLock,
    /// Under k-CAS: the version.
    version: Cell,
    choice: Choice,
}

/// What it takes to read covered words, for code that knows the mechanism and loads several in a
/// row: nothing but the words and the version is loaded.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    words: &'a VersionedWords,
    mechanism: Mechanism,
}

impl Reader<'_> {
    /// Returns the version, as [`VersionedWords::begin`] does.
    #[inline(always)]
    pub fn begin(self) -> Version {
        Version(match self.mechanism {
            Mechanism::Assisted => self.words.lock.begin(),
            Mechanism::Kcas => kcas::begin(self.words.version.raw()),
        })
    }

    /// Returns the mechanism, which is a constant for a caller that has created this from one.
    #[inline(always)]
    pub fn mechanism(self) -> Mechanism {
        self.mechanism
    }

    /// Returns the value of a word, as [`VersionedWords::load`] does.
    #[inline(always)]
    pub fn load(self, word: &StableWord) -> u64 {
        match self.mechanism {
            // Relaxed: lies between the acquire in `begin` and the fence in `is_still`.
            Mechanism::Assisted => word.raw().load(Ordering::Relaxed),
            Mechanism::Kcas => kcas::load(word.raw()),
        }
    }

    /// Returns whether the version is unchanged, as [`VersionedWords::is_still`] does.
    #[inline(always)]
    pub fn is_still(self, version: Version) -> bool {
        match self.mechanism {
            Mechanism::Assisted => self.words.lock.is_still(version.0),
            Mechanism::Kcas => kcas::is_still(self.words.version.raw(), version.0),
        }
    }
}

impl VersionedWords {
    /// Creates it for the [`mechanism`] of this process, which the first operation chooses.
    pub const fn new() -> VersionedWords {
        VersionedWords::of(Choice::open())
    }

    /// Creates it for k-CAS.
    pub const fn with_kcas() -> VersionedWords {
        VersionedWords::of(Choice::made(Mechanism::Kcas))
    }

    /// Creates it for this mechanism, whatever the process has chosen. Falls back to k-CAS if
    /// OS-assisted DCAS does not work here.
    pub fn with_mechanism(mechanism: Mechanism) -> VersionedWords {
        VersionedWords::of(Choice::made(mechanism.or_kcas()))
    }

    /// Creates it for the mechanism of another one, for a structure that consists of several, and
    /// for [`read_at_once`](VersionedWords::read_at_once).
    pub const fn like(mechanism: Mechanism) -> VersionedWords {
        let lock = match mechanism {
            Mechanism::Assisted => RevocableLock::new(),
            Mechanism::Kcas => RevocableLock::unused(),
        };
        VersionedWords::with(lock, Choice::made(mechanism))
    }

    const fn of(choice: Choice) -> VersionedWords {
        VersionedWords::with(RevocableLock::new(), choice)
    }

    const fn with(lock: RevocableLock, choice: Choice) -> VersionedWords {
        VersionedWords {
            lock,
            version: Cell::new(1),
            choice,
        }
    }

    /// Returns a covered word in the cache line of the version of OS-assisted DCAS, for the word
    /// that most operations use. Zero at first.
    #[inline(always)]
    pub fn attached(&self) -> &StableWord {
        StableWord::of(self.lock.attached())
    }

    /// Returns the mechanism, which this chooses if it is not chosen yet.
    #[inline(always)]
    pub fn mechanism(&self) -> Mechanism {
        match self.choice.get() {
            Some(mechanism) => mechanism,
            None => self.choose(),
        }
    }

    #[cold]
    #[inline(never)]
    fn choose(&self) -> Mechanism {
        self.choice.choose(mechanism())
    }

    /// Returns whether it uses k-CAS. The caller has called [`begin`](VersionedWords::begin), which
    /// chooses the mechanism; before that the result means nothing.
    #[inline(always)]
    fn uses_kcas(&self) -> bool {
        self.choice.get() == Some(Mechanism::Kcas)
    }

    /// Returns a reader of the covered words. The mechanism is that of this value, which the caller
    /// has created with it.
    #[inline(always)]
    pub fn reader(&self, mechanism: Mechanism) -> Reader<'_> {
        debug_assert_eq!(self.choice.get(), Some(mechanism));
        Reader {
            words: self,
            mechanism,
        }
    }

    /// Returns the version and a reader of OS-assisted DCAS, or `None` if this uses k-CAS or
    /// another thread must be waited for. Loads the version alone: this value was created by
    /// [`like`](VersionedWords::like), so under k-CAS its lock is never free.
    #[inline(always)]
    pub fn read_at_once(&self) -> Option<(Version, Reader<'_>)> {
        let version = self.lock.begin_at_once()?;
        Some((Version(version), self.reader(Mechanism::Assisted)))
    }

    /// Returns the number of modifications plus 1.
    #[inline]
    pub fn version(&self) -> Version {
        Version(match self.mechanism() {
            Mechanism::Assisted => self.lock.version(),
            Mechanism::Kcas => kcas::begin(self.version.raw()),
        })
    }

    /// Returns the version at a time when no operation is unfinished. What is loaded from now on
    /// belongs to this version if [`is_still`](VersionedWords::is_still) returns `true` afterwards.
    #[inline(always)]
    pub fn begin(&self) -> Version {
        Version(match self.mechanism() {
            Mechanism::Assisted => self.lock.begin(),
            Mechanism::Kcas => kcas::begin(self.version.raw()),
        })
    }

    /// Advances the version without a change. The caller owns this exclusively, and may change the
    /// words.
    pub fn count_modification(&mut self) {
        let Version(version) = self.begin();
        match self.mechanism() {
            Mechanism::Assisted => self.lock.set_version(version + 1),
            // Relaxed: the caller has exclusive access, so no other thread loads it.
            Mechanism::Kcas => self.version.raw().store(version + 1, Ordering::Relaxed),
        }
    }

    /// Returns the value of a covered word. It counts only if
    /// [`is_still`](VersionedWords::is_still) returns `true` for the version of
    /// [`begin`](VersionedWords::begin).
    #[inline(always)]
    pub fn load(&self, word: &StableWord) -> u64 {
        match self.uses_kcas() {
            // Relaxed: lies between the acquire in `begin` and the fence in `is_still`.
            false => word.raw().load(Ordering::Relaxed),
            true => kcas::load(word.raw()),
        }
    }

    /// Returns whether the version is unchanged. If so, all values loaded since `begin` were
    /// current at one time.
    #[inline(always)]
    pub fn is_still(&self, version: Version) -> bool {
        match self.uses_kcas() {
            false => self.lock.is_still(version.0),
            true => kcas::is_still(self.version.raw(), version.0),
        }
    }

    /// Returns the values of words as of one time, and the version at that time.
    #[inline]
    pub fn snapshot<const N: usize>(&self, words: [&StableWord; N]) -> ([u64; N], Version) {
        loop {
            let version = self.begin();
            let values = words.map(|word| self.load(word));
            if self.is_still(version) {
                return (values, version);
            }
        }
    }

    /// Changes both words and returns `true` if both have their old values. Returns `false`, having
    /// changed nothing, if one differs.
    ///
    /// # Safety
    ///
    /// The words are different, and change only through this value. They stay valid until this
    /// returns; under k-CAS, until no thread is in an operation of this value. If the call never
    /// returns (see [`siglongjmp`](crate::signal::siglongjmp)), they stay valid as long as this
    /// value is used.
    #[inline]
    pub unsafe fn compare_exchange_pair(&self, first: Change<'_>, second: Change<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self.mechanism() {
                Mechanism::Assisted => self.lock.exchange(first.part(), second.part()),
                Mechanism::Kcas => self.exchange_kcas([first, second]),
            }
        }
    }

    /// Changes one word, in the same way.
    ///
    /// # Safety
    ///
    /// As for [`compare_exchange_pair`](VersionedWords::compare_exchange_pair).
    #[inline]
    pub unsafe fn compare_exchange(&self, change: Change<'_>) -> bool {
        // SAFETY: the caller's promise. Under OS-assisted DCAS the second word is the lock's own
        // spare word.
        unsafe {
            match self.mechanism() {
                Mechanism::Assisted => self.lock.exchange(change.part(), self.lock.spare_part()),
                Mechanism::Kcas => self.exchange_kcas([change]),
            }
        }
    }

    /// Changes all words and returns `true` if each has its old value. Words that keep their values
    /// are only compared: the version proves that they are unchanged.
    ///
    /// # Safety
    ///
    /// As for [`compare_exchange_pair`](VersionedWords::compare_exchange_pair), for the words that
    /// change. They are at most [`MAX_CHANGES`](super::MAX_CHANGES), and at most two under
    /// OS-assisted DCAS.
    pub unsafe fn compare_exchange_all(&self, changes: &[Change<'_>]) -> bool {
        let mut attempts = 0;
        loop {
            let version = self.begin();
            let are_as_expected = |change: &Change<'_>| self.load(change.word) == change.old;
            let all = changes.iter().all(are_as_expected);
            if !self.is_still(version) {
                continue;
            }
            if !all {
                return false;
            }
            let mut changing = changes.iter().filter(|change| change.old != change.new);
            let done = match self.mechanism() {
                Mechanism::Assisted => {
                    let mut next = || changing.next().map(|change| (change.word, change.new));
                    let both = [next(), next()];
                    // SAFETY: the caller's promise. The spare word of `store_if` is the lock's own.
                    unsafe {
                        match both {
                            [None, _] => true,
                            [Some(one), None] => self.store_if(version, one),
                            [Some(first), Some(second)] => {
                                self.store_pair_if(version, first, second)
                            }
                        }
                    }
                }
                Mechanism::Kcas => {
                    let mut parts = [Part::NONE; kcas::MAX];
                    let mut count = 0;
                    for change in changing {
                        parts[count] = change.part();
                        count += 1;
                    }
                    // SAFETY: the caller's promise: the words are different, and had their old
                    // values at this version. If no word changes, comparing them was enough.
                    count == 0 || unsafe { self.exchange_parts(version, &parts[..count]) }
                }
            };
            // It fails if the version has advanced, perhaps because this very call was interrupted.
            if done {
                return true;
            }
            attempts += 1;
            match self.mechanism() {
                Mechanism::Kcas => self.back_off(),
                // Relaxed: an independent number, see `set_restart_limit`.
                Mechanism::Assisted if attempts > RESTART_LIMIT.load(Ordering::Relaxed) => {
                    // SAFETY: the caller's promise.
                    return unsafe { self.compare_exchange_all_locked(changes) };
                }
                Mechanism::Assisted => {}
            }
        }
    }

    /// Does the same under the irrevocable lock of OS-assisted DCAS, for a thread whose attempts
    /// failed too often: each may have been interrupted at the same instruction, as by a
    /// watchpoint. At least one word changes.
    #[cold]
    unsafe fn compare_exchange_all_locked(&self, changes: &[Change<'_>]) -> bool {
        let holds = || (changes.iter()).all(|change| self.load(change.word) == change.old);
        let mut changing = changes.iter().filter(|change| change.old != change.new);
        let mut next = || changing.next().map(Change::part);
        let [first, second] = [next(), next()].map(|part| part.unwrap_or(self.lock.spare_part()));
        // SAFETY: the caller's promise. The second word may be the lock's own spare word.
        unsafe { self.lock.store_pair_where(&holds, first, second) }
    }

    /// Stores to both words and returns `true` if the version is unchanged: compare-and-double-swap
    /// (GC96, note 5). Returns `false`, having changed nothing, if the version has advanced,
    /// perhaps because this very call was interrupted and rolled back.
    ///
    /// # Safety
    ///
    /// As for [`compare_exchange_pair`](VersionedWords::compare_exchange_pair), except that the
    /// words may be the same if the version has advanced: a search that met later changes may end
    /// like this, and then no word is changed. Under k-CAS the values are at most [`Cell::MAX`].
    #[inline(always)]
    pub unsafe fn store_pair_if(
        &self,
        version: Version,
        first: (&StableWord, u64),
        second: (&StableWord, u64),
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self.mechanism() {
                Mechanism::Assisted => {
                    self.lock
                        .store_pair_if(version.0, stored(first), stored(second))
                }
                Mechanism::Kcas => self.store_all_if_kcas(version, [first, second]),
            }
        }
    }

    /// Stores to one word, in the same way.
    ///
    /// # Safety
    ///
    /// As for [`store_pair_if`](VersionedWords::store_pair_if).
    #[inline(always)]
    pub unsafe fn store_if(&self, version: Version, word: (&StableWord, u64)) -> bool {
        // SAFETY: the caller's promise. Under OS-assisted DCAS the second word is the lock's own
        // spare word.
        unsafe {
            match self.mechanism() {
                Mechanism::Assisted => {
                    self.lock
                        .store_pair_if(version.0, stored(word), self.lock.spare_part())
                }
                Mechanism::Kcas => self.store_all_if_kcas(version, [word]),
            }
        }
    }

    /// Stores to a cell of [`Cells`], which holds any 64 bits, and to a word, if the version is
    /// unchanged. Use it for a structure that always uses k-CAS, so that no code of the other
    /// mechanism is compiled in.
    ///
    /// # Safety
    ///
    /// As for [`store_pair_if`](VersionedWords::store_pair_if). The cells were created for this
    /// value, and this value was created to use k-CAS.
    ///
    /// # Panics
    ///
    /// If there is no cell of that index.
    pub unsafe fn store_cell_if_by_kcas(
        &self,
        version: Version,
        (cells, index, value): (&Cells, usize, u64),
        word: (&StableWord, u64),
    ) -> bool {
        let [low, high] = cells.halves(index, value);
        // SAFETY: the caller's promise.
        unsafe { self.store_all_if_kcas(version, [low, high, word]) }
    }

    /// Stores to one word if the version is unchanged, for a structure that always uses k-CAS.
    ///
    /// # Safety
    ///
    /// As for [`store_if`](VersionedWords::store_if). This value was created to use k-CAS.
    pub unsafe fn store_if_by_kcas(&self, version: Version, word: (&StableWord, u64)) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.store_all_if_kcas(version, [word]) }
    }

    /// Backs off after a change that lost to another thread's, for longer if this repeats. May
    /// yield the CPU.
    pub fn back_off(&self) {
        contention::back_off(self);
    }

    /// Leaves the state in which a thread is stopped indefinitely inside `compare_exchange_pair`:
    /// see [`Domain::abandon`](super::Domain::abandon).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon(&self, first: Change<'_>, second: Change<'_>) -> bool {
        let assisted = self.mechanism() == Mechanism::Assisted;
        if assisted {
            self.lock.abandon(first.part(), second.part());
        }
        assisted
    }

    /// Leaves the state in which a thread is stopped while it holds the lock and has changed
    /// nothing.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_lock(&self) -> bool {
        let assisted = self.mechanism() == Mechanism::Assisted;
        if assisted {
            self.lock.abandon_lock();
        }
        assisted
    }

    /// After one of the two above: leaves the state in which a second thread is stopped while it
    /// revokes the first.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_claim(&self) {
        if self.mechanism() == Mechanism::Assisted {
            self.lock.abandon_claim();
        }
    }

    #[inline(never)]
    unsafe fn exchange_kcas<const N: usize>(&self, changes: [Change<'_>; N]) -> bool {
        let parts = changes.map(|change| change.part());
        loop {
            let version = Version(kcas::begin(self.version.raw()));
            let are_as_expected = |change: &Change<'_>| kcas::load(change.word.raw()) == change.old;
            if !changes.iter().all(are_as_expected) {
                match kcas::is_still(self.version.raw(), version.0) {
                    true => return false,
                    false => continue,
                }
            }
            // SAFETY: the caller's promise, and the words had their old values at this version. It
            // fails only if another operation has succeeded since.
            if unsafe { self.exchange_parts(version, &parts) } {
                return true;
            }
            self.back_off();
        }
    }

    #[inline(never)]
    unsafe fn store_all_if_kcas<const N: usize>(
        &self,
        version: Version,
        words: [(&StableWord, u64); N],
    ) -> bool {
        let words = words.map(|(word, new)| (word.raw(), new));
        // SAFETY: the caller's promise.
        unsafe { kcas::store_pair_if(self.version.raw(), version.0, words) }
    }

    #[inline(always)]
    unsafe fn exchange_parts(&self, version: Version, parts: &[Part]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { kcas::exchange(self.version.raw(), version.0, parts) }
    }
}

/// Of a word that is not compared.
#[inline(always)]
fn stored((word, new): (&StableWord, u64)) -> Part {
    Part {
        word: word.raw(),
        old: 0,
        new,
    }
}

impl Change<'_> {
    #[inline(always)]
    fn part(&self) -> Part {
        Part {
            word: self.word.raw(),
            old: self.old,
            new: self.new,
        }
    }
}
