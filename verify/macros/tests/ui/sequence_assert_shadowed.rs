//! A crate that is called `core`, in which every assertion holds: the rules of a sequence's
//! constants are checked all the same.

extern crate self as core;

#[macro_export]
macro_rules! assert {
    ($($anything:tt)*) => {};
}

pub mod arch {
    pub use std::arch::asm;
}

pub mod cmp {
    pub use std::cmp::Ord;
}

pub mod option {
    pub use std::option::Option;
}

pub mod result {
    pub use std::result::Result;
}

const FAR: usize = 70_000;

atomseq::sequence! {
    unsafe fn give(at: Word) -> Word {
        let old = load(at);
        commit(at, FAR);
        old
    }
}

fn main() {}
