//! A shared object with statics of both kinds, atomseq's and the standard library's.

use std::cell::Cell;

use atomseq::local::{Counter, Ring, per_thread};

per_thread! {
    static HITS: Counter = Counter::new();
    static RECENT: Ring<[u64; 2], 4> = Ring::new();
}

thread_local! {
    static STANDARD: Cell<u64> = const { Cell::new(0) };
}

/// Adds to this thread's counter; returns its sum.
#[unsafe(no_mangle)]
extern "C" fn loaded_hit(amount: u64) -> u64 {
    HITS.with(|hits| {
        hits.add(amount);
        hits.sum()
    })
}

/// Pushes the number into this thread's ring, twice, and returns what was popped before.
#[unsafe(no_mangle)]
extern "C" fn loaded_exchange(number: u64) -> u64 {
    RECENT.with(|recent| {
        let before = recent.pop().map_or(0, |[first, second]| first + second);
        recent.push([number, number]).map_or(u64::MAX, |()| before)
    })
}

/// Makes the same addition to a thread-local of the standard library.
#[unsafe(no_mangle)]
extern "C" fn loaded_hit_standard(amount: u64) -> u64 {
    STANDARD.set(STANDARD.get() + amount);
    STANDARD.get()
}
