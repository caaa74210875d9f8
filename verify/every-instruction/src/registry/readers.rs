//! [`RawRwLock`], whose readers count themselves per CPU.

use atomseq::mutex::RawRwLock;
use atomseq::mutex::lock_api::RawRwLock as _;

use crate::scenario::{Check, Scenario, Words};

#[inline(never)]
fn enter(lock: &RawRwLock) -> Words {
    lock.lock_shared();
    vec![]
}

#[inline(never)]
fn leave(lock: &RawRwLock) -> Words {
    // SAFETY: `fresh` leaves more readers inside than a scenario takes out.
    unsafe { lock.unlock_shared() };
    vec![]
}

/// Makes a lock whose readers are biased, with three inside.
fn fresh() -> RawRwLock {
    let lock = RawRwLock::INIT;
    for _ in 0..3000 {
        enter(&lock);
        leave(&lock);
    }
    (0..3).for_each(|_| _ = enter(&lock));
    lock
}

/// Returns the number of readers, which it takes out.
fn inside(lock: &RawRwLock) -> Words {
    let mut readers = 0;
    while lock.is_locked() {
        leave(lock);
        readers += 1;
    }
    vec![readers]
}

pub fn check(checker: &mut impl Check) {
    let base = Scenario {
        name: "RwLock, a reader enters".to_string(),
        fresh,
        operation: enter,
        interferences: &[("enter", enter), ("leave", leave)],
        signal_safe: true,
        whole: true,
        content: inside,
        total: inside,
    };
    checker.check(&base);
    checker.check(&Scenario {
        name: "RwLock, a reader leaves".to_string(),
        operation: leave,
        ..base
    });
}
