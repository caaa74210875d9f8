//! Slow paths that a signal handler can meet half done: the harness must find that they hang.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use atomseq::internals::SignalsBlocked;
use verify_every_instruction::scenario::{Check, Operation, Scenario, Words};
use verify_every_instruction::slow_path::SlowPath;

/// Every control.
pub const CONTROLS: [&str; 2] = ["deadlock-never-blocked", "deadlock-opened-too-late"];

/// A word behind a lock.
#[derive(Default)]
struct Locked {
    taken: AtomicBool,
    word: AtomicU64,
}

impl Locked {
    fn add(&self) -> Words {
        while self.taken.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        self.word.fetch_add(1, Ordering::Relaxed);
        vec![]
    }

    fn open(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// Signals come in while the lock is held.
fn add_unblocked(locked: &Locked) -> Words {
    let words = locked.add();
    locked.open();
    words
}

/// Signals come in before the lock is given back.
fn add_opened_too_late(locked: &Locked) -> Words {
    let quiet = SignalsBlocked::enter();
    let words = locked.add();
    drop(quiet);
    locked.open();
    words
}

/// Runs one; it should not return.
pub fn check(name: &str, checker: &mut SlowPath) {
    let operation: Operation<Locked> = match name {
        "deadlock-never-blocked" => add_unblocked,
        _ => add_opened_too_late,
    };
    let word: Operation<Locked> = |locked| vec![locked.word.load(Ordering::Relaxed)];
    checker.check(&Scenario {
        name: name.to_string(),
        fresh: Locked::default,
        operation,
        interferences: match name {
            "deadlock-never-blocked" => &[("the same", add_unblocked)],
            _ => &[("the same", add_opened_too_late)],
        },
        signal_safe: true,
        whole: true,
        content: word,
        total: word,
    });
}
