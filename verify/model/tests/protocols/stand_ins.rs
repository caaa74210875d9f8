//! What the models need of the library's `sync` and is the same over loom and shuttle.

use std::cell::Cell;

use super::{AtomicU32, wait};

/// How often a thread looks again before it parks: as few as make a difference.
pub const SPINS: usize = 1;

/// How often a sleeper yields to other threads before it sleeps.
pub fn pauses() -> u32 {
    1
}

/// Returns immediately.
pub fn pause(_round: u32) {}

/// There are no child processes here.
pub fn generation() -> u32 {
    0
}

thread_local! {
    static HASTE: Cell<bool> = const { Cell::new(false) };
}

/// From now on in this test, the patience of every waiter is exhausted.
pub fn be_hasty() {
    HASTE.set(true);
}

pub fn is_hasty() -> bool {
    HASTE.get()
}

thread_local! {
    pub static LAST_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// From now on in this test, the last to wait is the first to be woken, as if its priority were
/// highest.
pub fn wake_the_last_first() {
    LAST_FIRST.set(true);
}

/// Waits for a word until woken, or not at all.
pub struct Patience;

impl Patience {
    pub fn new(_milliseconds: u32) -> Patience {
        Patience
    }

    pub fn sleep(&mut self, word: &AtomicU32, expected: u32) -> bool {
        let waits = !HASTE.get();
        if waits {
            wait(word, expected);
        }
        waits
    }
}
