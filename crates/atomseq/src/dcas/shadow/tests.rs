use std::cell::Cell;

use super::*;
use crate::dcas::Mechanism;

/// Adds to the state. It has no section, so it always takes the slow path.
struct Adding(u64);

impl Change for Adding {
    fn attempt(&mut self) -> Option<usize> {
        None
    }

    fn is_refused(&self, state: u64) -> bool {
        state + self.0 > 10
    }

    fn store(&mut self, version: u64, state: u64) -> u64 {
        assert_eq!(version, state + 1, "each adds one");
        state + self.0
    }

    fn opposite(&self, state: u64) -> u64 {
        state
    }
}

#[test]
fn a_thread_without_sections_locks() {
    let shadow = Shadow::new();
    for state in 0..10 {
        assert_eq!(
            (shadow.state(), shadow.version().number()),
            (state, state + 1)
        );
        assert!(shadow.change_slowly(&mut Adding(1), Some(UNREGISTERED)));
    }
    assert!(!shadow.change_slowly(&mut Adding(1), None));
    assert!(!shadow.change_slowly(&mut Adding(1), Some(REFUSED)));
    assert_eq!((shadow.state(), shadow.version().number()), (10, 11));
}

/// What a thread that has exited may leave in the lock, and in the state that does not count.
#[test]
fn what_exited_threads_left_is_revoked() {
    let generation = u64::from(platform::generation());
    let left = [
        ("a holder", HELD),
        ("a claimant", CLAIM + 1023),
        ("the parent of a fork", LOCKED + ((generation + 1) & ID)),
    ];
    let works = Mechanism::Assisted.or_kcas() == Mechanism::Assisted;
    for (left_by, below) in left {
        if !works && below & STATE != LOCKED {
            continue;
        }
        let shadow = Shadow::new();
        assert!(shadow.change_slowly(&mut Adding(1), None));
        let leave = || {
            shadow.lock.fetch_or(below, Ordering::SeqCst);
            let free = shadow.lock.load(Ordering::SeqCst);
            shadow.of(free + VERSION).store(99, Ordering::SeqCst);
        };
        leave();
        assert_eq!(shadow.state(), 1, "{left_by}");
        leave();
        assert!(
            shadow.change_slowly(&mut Adding(1), Some(BUSY)),
            "{left_by}"
        );
        assert_eq!(
            (shadow.state(), shadow.version().number()),
            (2, 3),
            "{left_by}"
        );
    }
}

#[test]
fn what_was_abandoned_does_not_count() {
    if Mechanism::Assisted.or_kcas() != Mechanism::Assisted {
        return;
    }
    let shadow = Shadow::new();
    shadow.abandon(&mut Adding(5));
    assert_eq!((shadow.state(), shadow.version().number()), (0, 1));
}

/// Counts changes.
struct Next;

impl Change for Next {
    fn attempt(&mut self) -> Option<usize> {
        None
    }

    fn is_refused(&self, _state: u64) -> bool {
        false
    }

    fn store(&mut self, _version: u64, state: u64) -> u64 {
        state + 1
    }

    fn opposite(&self, _state: u64) -> u64 {
        0
    }
}

/// Versions have 48 bits. After the last one, which is odd, they wrap around to an even one.
#[test]
fn after_the_last_version_comes_the_first() {
    let last = u64::MAX << 16;
    let shadow = Shadow::new();
    shadow.of(last).store(7, Ordering::SeqCst);
    shadow.lock.store(last, Ordering::SeqCst);
    assert_eq!((shadow.state(), shadow.version().number()), (7, last >> 16));
    if Mechanism::Assisted.or_kcas() == Mechanism::Assisted {
        shadow.abandon(&mut Next);
        assert_eq!((shadow.state(), shadow.version().number()), (7, last >> 16));
    }
    assert!(shadow.change_slowly(&mut Next, None));
    assert_eq!((shadow.state(), shadow.version().number()), (8, 0));
}

/// Is always refused. While it waits, another thread makes a change of each kind in turn.
struct Refused {
    shadow: Shadow,
    looks: Cell<u64>,
}

impl Change for &Refused {
    fn attempt(&mut self) -> Option<usize> {
        unreachable!("it is refused")
    }

    fn is_refused(&self, _state: u64) -> bool {
        true
    }

    fn store(&mut self, _version: u64, _state: u64) -> u64 {
        unreachable!("it is refused")
    }

    fn opposite(&self, _state: u64) -> u64 {
        self.shadow.lock.fetch_add(VERSION, Ordering::Relaxed);
        self.looks.set(self.looks.get() + 1);
        10 - (self.looks.get() - 1) % 2
    }
}

/// A stack of free values may change all the time, and be empty most of the time.
#[test]
fn no_thread_waits_for_threads_that_make_changes_of_both_kinds() {
    let refused = Refused {
        shadow: Shadow::new(),
        looks: Cell::new(0),
    };
    // So many changes that the container is no longer new.
    refused.shadow.lock.store(VERSION << 12, Ordering::Relaxed);
    let refuse = || refused.shadow.change_slowly(&mut &refused, Some(REFUSED));
    assert!(!refuse());
    // The first is for the capacity.
    assert_eq!(refused.looks.take(), 1 + 2);
    assert!(!refuse());
    assert_eq!(refused.looks.take(), 1);
}
