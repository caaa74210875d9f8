//! A version number (GC96 5.1) and the words that it covers, wherever they lie: what
//! [`Domain`](super::Domain) and the structures in `nonblocking/` are made of.
//!
//! A structure's operation is always the same: [`begin`](VersionedWords::begin), look at covered
//! words with [`load`](VersionedWords::load), change one or two of them by
//! [`store_pair_if`](VersionedWords::store_pair_if), and do it all again if that fails. What was
//! looked at without a change counts if [`is_still`](VersionedWords::is_still) says so. Every
//! change changes the version, so no word that comes back to an old value deceives anybody.
//!
//! Words that are not covered, such as the contents of a node in type-stable memory, count
//! likewise, provided that whoever writes them has had the node from a
//! [`type_stable::Pool`](crate::type_stable::Pool) since it was unlinked: a release fence lies
//! between the change that unlinked it and the first store of the next owner, which pairs with the
//! acquire fence in `is_still`.

use super::assisted::RevocableLock;
use super::contention;
use super::mechanism::{Mechanism, mechanism};
use super::part::Part;
use super::{Cell, Cells, Change, StableWord, Version, kcas};
use crate::sync::Ordering;

/// One version number, and the mechanism by which it and what it covers change together.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct VersionedWords {
    line: RevocableLock,
    /// The version, under k-CAS.
    version: Cell,
    mechanism: Mechanism,
}

impl VersionedWords {
    /// By the [`mechanism`] of this process.
    pub fn new() -> VersionedWords {
        VersionedWords::made(mechanism())
    }

    /// By this mechanism whatever was chosen, to test and to compare; by k-CAS if the other one
    /// does not work here.
    pub fn with_mechanism(mechanism: Mechanism) -> VersionedWords {
        VersionedWords::made(mechanism.or_kcas())
    }

    fn made(mechanism: Mechanism) -> VersionedWords {
        VersionedWords {
            line: RevocableLock::new(),
            version: Cell::new(1),
            mechanism,
        }
    }

    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// One more than the modifications that there were.
    #[inline]
    pub fn version(&self) -> Version {
        Version(match self.mechanism {
            Mechanism::Assisted => self.line.version(),
            Mechanism::Kcas => kcas::begin(self.version.raw()),
        })
    }

    /// The version at a time when no operation is half done: what is looked at from now on belongs
    /// to it, if the object is still at it afterwards.
    #[inline(always)]
    pub fn begin(&self) -> Version {
        Version(match self.mechanism {
            Mechanism::Assisted => self.line.begin(),
            Mechanism::Kcas => kcas::begin(self.version.raw()),
        })
    }

    /// Goes to the next version, without a change: the caller, who owns this exclusively, may
    /// change the words.
    pub fn count_modification(&mut self) {
        let Version(version) = self.begin();
        match self.mechanism {
            Mechanism::Assisted => self.line.set_version(version + 1),
            // Relaxed, here and there: no other thread looks.
            Mechanism::Kcas => self.version.raw().store(version + 1, Ordering::Relaxed),
        }
    }

    /// The value of a covered word. Counts only if the object is still at the version of the
    /// beginning.
    #[inline(always)]
    pub fn load(&self, word: &StableWord) -> u64 {
        match self.mechanism {
            // Relaxed: after the acquire in `begin`, before the fence in `is_still`.
            Mechanism::Assisted => word.raw().load(Ordering::Relaxed),
            Mechanism::Kcas => kcas::load(word.raw()),
        }
    }

    /// Has nothing changed since the version? Then what was loaded since `begin` was so at one
    /// time.
    #[inline(always)]
    pub fn is_still(&self, version: Version) -> bool {
        match self.mechanism {
            Mechanism::Assisted => self.line.is_still(version.0),
            Mechanism::Kcas => kcas::is_still(self.version.raw(), version.0),
        }
    }

    /// The values that words had at one time, and the version at that time.
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

    /// Changes both words if both have their old values; `false`: one of them has another one.
    ///
    /// # Safety
    ///
    /// The words are different, and covered by this object alone: they change in no other way. They
    /// are valid until this returns, and as long as the object is used if it never does (see
    /// [`siglongjmp`](crate::signal::siglongjmp)); under k-CAS until no thread is in an operation
    /// of this object.
    #[inline]
    pub unsafe fn compare_exchange_pair(&self, first: Change<'_>, second: Change<'_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self.mechanism {
                Mechanism::Assisted => self.line.exchange(first.part(), second.part()),
                Mechanism::Kcas => self.exchange_kcas([first, second]),
            }
        }
    }

    /// The same for one word.
    ///
    /// # Safety
    ///
    /// As for [`compare_exchange_pair`](VersionedWords::compare_exchange_pair).
    #[inline]
    pub unsafe fn compare_exchange(&self, change: Change<'_>) -> bool {
        // SAFETY: the caller's promise; the other word is the line's own.
        unsafe {
            match self.mechanism {
                Mechanism::Assisted => self.line.exchange(change.part(), self.line.no_part()),
                Mechanism::Kcas => self.exchange_kcas([change]),
            }
        }
    }

    /// Changes all words if each has its old value. Those that are to stay are compared only, which
    /// the version does: it changes with every word.
    ///
    /// # Safety
    ///
    /// As for [`compare_exchange_pair`](VersionedWords::compare_exchange_pair), of those that
    /// change; there are at most [`MAX_CHANGES`](super::MAX_CHANGES), and under OS-assisted DCAS
    /// two.
    pub unsafe fn compare_exchange_all(&self, changes: &[Change<'_>]) -> bool {
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
            let done = match self.mechanism {
                Mechanism::Assisted => {
                    let mut next = || changing.next().map(|change| (change.word, change.new));
                    let both = [next(), next()];
                    // SAFETY: the caller's promise.
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
                    let mut parts = [NOTHING; kcas::MAX];
                    let mut count = 0;
                    for change in changing {
                        parts[count] = change.part();
                        count += 1;
                    }
                    // SAFETY: as for `try_kcas`. Nothing changes: it was so at one time.
                    count == 0 || unsafe { self.exchange_parts(version, &parts[..count]) }
                }
            };
            // If not, something has changed, or the version was used up.
            if done {
                return true;
            }
            if self.mechanism == Mechanism::Kcas {
                self.back_off();
            }
        }
    }

    /// Compare-and-double-swap (GC96 note 5): sets both words if nothing has changed since the
    /// version. `false`: something has, or this very call was interrupted and undone.
    ///
    /// # Safety
    ///
    /// As for [`compare_exchange_pair`](VersionedWords::compare_exchange_pair). Under k-CAS the
    /// values are at most [`Cell::MAX`].
    #[inline(always)]
    pub unsafe fn store_pair_if(
        &self,
        version: Version,
        first: (&StableWord, u64),
        second: (&StableWord, u64),
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self.mechanism {
                Mechanism::Assisted => {
                    self.line
                        .store_pair_if(version.0, stored(first), stored(second))
                }
                Mechanism::Kcas => self.since_kcas(version, [first, second]),
            }
        }
    }

    /// The same for one word.
    ///
    /// # Safety
    ///
    /// As for [`store_pair_if`](VersionedWords::store_pair_if).
    #[inline(always)]
    pub unsafe fn store_if(&self, version: Version, word: (&StableWord, u64)) -> bool {
        // SAFETY: the caller's promise; the other word is the line's own.
        unsafe {
            match self.mechanism {
                Mechanism::Assisted => {
                    self.line
                        .store_pair_if(version.0, stored(word), self.line.no_part())
                }
                Mechanism::Kcas => self.since_kcas(version, [word]),
            }
        }
    }

    /// [`store_pair_if`](VersionedWords::store_pair_if) of a cell, which holds any 64 bits, and a
    /// word, of an object that uses k-CAS for certain: without a copy of the other way.
    ///
    /// # Safety
    ///
    /// As there; the cells were made for this object, and it was made to use k-CAS.
    ///
    /// # Panics
    ///
    /// If there is no cell of that number.
    pub unsafe fn put_since_by_kcas(
        &self,
        version: Version,
        (cells, index, value): (&Cells, usize, u64),
        word: (&StableWord, u64),
    ) -> bool {
        let [low, high] = cells.halves(index, value);
        // SAFETY: the caller's promise.
        unsafe { self.since_kcas(version, [low, high, word]) }
    }

    /// [`store_if`](VersionedWords::store_if), of an object that uses k-CAS for certain.
    ///
    /// # Safety
    ///
    /// As there; the object was made to use k-CAS.
    pub unsafe fn store_if_by_kcas(&self, version: Version, word: (&StableWord, u64)) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.since_kcas(version, [word]) }
    }

    /// For who was forestalled: lets the others get on with it for a while, longer if it goes on
    /// like that. It may yield the CPU.
    pub fn back_off(&self) {
        contention::back_off(self);
    }

    /// Leaves the object as a thread does that is stopped for ever inside `compare_exchange_pair`:
    /// see [`Domain::abandon`](super::Domain::abandon).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon(&self, first: Change<'_>, second: Change<'_>) -> bool {
        let assisted = self.mechanism == Mechanism::Assisted;
        if assisted {
            self.line.abandon(first.part(), second.part());
        }
        assisted
    }

    /// Likewise with the lock taken and nothing done.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_lock(&self) -> bool {
        let assisted = self.mechanism == Mechanism::Assisted;
        if assisted {
            self.line.abandon_lock();
        }
        assisted
    }

    /// After either: as a second thread does that is stopped as it throws the first one out.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn abandon_claim(&self) {
        if self.mechanism == Mechanism::Assisted {
            self.line.abandon_claim();
        }
    }

    #[inline(never)]
    unsafe fn exchange_kcas<const N: usize>(&self, changes: [Change<'_>; N]) -> bool {
        loop {
            let (values, version) = self.snapshot(changes.map(|change| change.word));
            if values != changes.map(|change| change.old) {
                return false;
            }
            // It fails only if another operation succeeded.
            // SAFETY: the caller's promise.
            if unsafe { self.try_kcas(version, changes) } {
                return true;
            }
            self.back_off();
        }
    }

    #[inline(never)]
    unsafe fn since_kcas<const N: usize>(
        &self,
        version: Version,
        words: [(&StableWord, u64); N],
    ) -> bool {
        let words = words.map(|(word, new)| (word.raw(), new));
        // SAFETY: the caller's promise.
        unsafe { kcas::store_pair_if(self.version.raw(), version.0, words) }
    }

    unsafe fn try_kcas<const N: usize>(&self, version: Version, changes: [Change<'_>; N]) -> bool {
        let parts = changes.map(|change| change.part());
        // SAFETY: the caller's promise.
        unsafe { self.exchange_parts(version, &parts) }
    }

    #[inline(always)]
    unsafe fn exchange_parts(&self, version: Version, parts: &[Part]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { kcas::exchange(self.version.raw(), version.0, parts) }
    }
}

/// No part.
const NOTHING: Part = Part {
    word: std::ptr::null(),
    old: 0,
    new: 0,
};

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
