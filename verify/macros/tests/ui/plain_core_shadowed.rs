//! A crate that is called `core`, in which every size is what the check wants.
#![forbid(unsafe_code)]

extern crate self as core;

pub mod mem {
    pub const fn size_of<T>() -> usize {
        0
    }
}

atomseq::nonblocking::plain! {
    struct Gap {
        small: u8,
        large: u64,
    }
}

fn main() {}
