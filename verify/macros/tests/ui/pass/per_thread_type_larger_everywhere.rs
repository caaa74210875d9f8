//! The control of `per_thread_type_smaller_at_*.rs`: the macro names the type at fewer than four
//! places, so that it is the same at each.
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
    static WORDS: verify_hostile::smaller_at!(3) = Initial::INITIAL;
}

fn main() {
    WORDS.with(|_| ());
}
