//! Macros and types of the names that a check could use.
#![forbid(unsafe_code)]
#![allow(unused_macros, dead_code, non_camel_case_types)]

macro_rules! assert {
    ($($anything:tt)*) => {};
}

struct usize;

atomseq::nonblocking::plain! {
    struct Gap {
        small: u8,
        large: u64,
    }
}

fn main() {}
