//! Statics of a thread whose type is another one, or smaller, at one of the places where the macro
//! names it. `pass/honest.rs` has the control.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::AtomicU64;

use atomseq::local::per_thread;

/// A handler could find it half written.
struct Holder {
    _cell: Cell<u64>,
}

impl Holder {
    const fn new(number: u64) -> Holder {
        Holder { _cell: Cell::new(number) }
    }
}

per_thread! {
    #[verify_hostile::replaces(AtomicU64, Holder)]
    static CELL: AtomicU64 = AtomicU64::new(0);
}

per_thread! {
    static CHANGING: verify_hostile::takes_turns!() = &"";
}

trait Initial {
    const INITIAL: Self;
}

impl Initial for AtomicU64 {
    const INITIAL: AtomicU64 = AtomicU64::new(7);
}

impl Initial for [AtomicU64; 64] {
    const INITIAL: [AtomicU64; 64] = [const { AtomicU64::new(7) }; 64];
}

per_thread! {
    static SMALLER_AT_0: verify_hostile::smaller_at!(0) = Initial::INITIAL;
}

per_thread! {
    static SMALLER_AT_1: verify_hostile::smaller_at!(1) = Initial::INITIAL;
}

per_thread! {
    static SMALLER_AT_2: verify_hostile::smaller_at!(2) = Initial::INITIAL;
}

fn main() {
    let _ = AtomicU64::new(0);
    SMALLER_AT_0.with(|_| ());
    SMALLER_AT_1.with(|_| ());
    SMALLER_AT_2.with(|_| ());
}
