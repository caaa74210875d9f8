//! A type that is smaller at one of the places where the macro names it.
#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU64;

trait Initial {
    const INITIAL: Self;
}

impl Initial for AtomicU64 {
    const INITIAL: AtomicU64 = AtomicU64::new(7);
}

impl Initial for [AtomicU64; 64] {
    const INITIAL: [AtomicU64; 64] = [const { AtomicU64::new(7) }; 64];
}

atomseq::local::per_thread! {
    static WORDS: verify_hostile::smaller_at!(1) = Initial::INITIAL;
}

fn main() {
    WORDS.with(|_| ());
}
