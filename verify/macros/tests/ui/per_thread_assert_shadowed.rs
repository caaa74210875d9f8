//! A crate that is called `core`, in which every assertion holds.
#![forbid(unsafe_code)]

extern crate self as core;

#[macro_export]
macro_rules! assert {
    ($($anything:tt)*) => {};
}

use atomseq::local::Stack;

atomseq::local::per_thread! {
    static LOST: Stack<Box<u64>, 16> = Stack::new();
}

fn main() {}
