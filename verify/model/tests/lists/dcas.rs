//! Objects as the lists see them: a version, and words that change with it, each exchange in one
//! step.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::rand::Rng;

use crate::sync::step;

/// What the lists rely on, and may have to do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// `is_still` says so whatever the version is.
    LastLook,
    /// Exchanges succeed whatever the version is.
    ExchangeVersion,
    /// No link says that its node was removed.
    RemovedLink,
}

thread_local!(static LEFT_OUT: Cell<Option<Protection>> = const { Cell::new(None) });

thread_local!(static INTERRUPTIONS: Cell<bool> = const { Cell::new(false) });

/// From now on: without this protection, and with or without exchanges that are interrupted.
pub fn set(left_out: Option<Protection>, interruptions: bool) {
    LEFT_OUT.set(left_out);
    INTERRUPTIONS.set(interruptions);
}

fn is_left_out(protection: Protection) -> bool {
    LEFT_OUT.get() == Some(protection)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Assisted,
    Kcas,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u64);

impl Version {
    pub fn number(self) -> u64 {
        self.0
    }
}

#[derive(Debug, Default)]
#[repr(transparent)]
pub struct StableWord(AtomicU64);

// SAFETY: an atomic word.
unsafe impl crate::type_stable::Descriptor for StableWord {}

#[derive(Debug)]
pub struct VersionedWords {
    version: AtomicU64,
}

/// What the link of a removed node holds.
const REMOVED: u64 = crate::nonblocking::NO_ADDRESS;

impl VersionedWords {
    pub fn new() -> VersionedWords {
        VersionedWords {
            version: AtomicU64::new(1),
        }
    }

    pub fn with_mechanism(_mechanism: Mechanism) -> VersionedWords {
        VersionedWords::new()
    }

    pub fn mechanism(&self) -> Mechanism {
        Mechanism::Kcas
    }

    pub fn version(&self) -> Version {
        self.begin()
    }

    pub fn begin(&self) -> Version {
        step();
        Version(self.version.load(Ordering::SeqCst))
    }

    pub fn load(&self, word: &StableWord) -> u64 {
        if std::thread::panicking() {
            // What a model that has failed leaves behind has no end that could be relied on.
            return 0;
        }
        step();
        word.0.load(Ordering::SeqCst)
    }

    pub fn is_still(&self, version: Version) -> bool {
        self.begin() == version || is_left_out(Protection::LastLook)
    }

    pub fn snapshot<const N: usize>(&self, words: [&StableWord; N]) -> ([u64; N], Version) {
        let version = self.begin();
        (words.map(|word| word.0.load(Ordering::SeqCst)), version)
    }

    /// # Safety
    ///
    /// None is needed here.
    pub unsafe fn store_pair_if(
        &self,
        version: Version,
        first: (&StableWord, u64),
        second: (&StableWord, u64),
    ) -> bool {
        assert!(!std::ptr::eq(first.0, second.0), "the same word twice");
        self.exchange(version, &[first, second])
    }

    /// # Safety
    ///
    /// None is needed here.
    pub unsafe fn store_if(&self, version: Version, word: (&StableWord, u64)) -> bool {
        self.exchange(version, &[word])
    }

    fn exchange(&self, version: Version, words: &[(&StableWord, u64)]) -> bool {
        if self.begin() != version && !is_left_out(Protection::ExchangeVersion) {
            return false;
        }
        if INTERRUPTIONS.get() && shuttle::rand::thread_rng().gen_bool(0.05) {
            // Interrupted, and undone: that uses the version up.
            self.version.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        for (word, new) in words {
            if *new == REMOVED && is_left_out(Protection::RemovedLink) {
                continue;
            }
            word.0.store(*new, Ordering::SeqCst);
        }
        self.version.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Nobody sleeps here.
    pub fn back_off(&self) {}
}

/// The words of figure 5.7, without a version.
impl StableWord {
    /// S92's `CAS2` (figure 5.3), in one step.
    pub fn cas2(words: [&StableWord; 2], old: [u64; 2], new: [u64; 2]) -> bool {
        step();
        let held = words.map(|word| word.0.load(Ordering::SeqCst));
        if held == old {
            (words[0].0).store(new[0], Ordering::SeqCst);
            (words[1].0).store(new[1], Ordering::SeqCst);
        }
        held == old
    }

    pub fn get(&self) -> u64 {
        step();
        self.0.load(Ordering::SeqCst)
    }

    pub fn set(&self, value: u64) {
        step();
        self.0.store(value, Ordering::SeqCst);
    }
}
