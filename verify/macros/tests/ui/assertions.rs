//! Macros' assertions on constants, sizes and values to drop, also where macros, types and a crate
//! of the names that a check could use are the caller's, in which every assertion holds.
#![allow(unused_macros, dead_code, non_camel_case_types)]

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

pub mod mem {
    pub const fn size_of<T>() -> usize {
        0
    }
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
        commit(at + FAR, old);
        old
    }
}

/// This module contains no `unsafe`.
mod safe {
    #![forbid(unsafe_code)]

    atomseq::local::per_thread! {
        static LOST: atomseq::local::Stack<Box<u64>, 16> = atomseq::local::Stack::new();
    }

    atomseq::nonblocking::plain! {
        struct GapWhereCoreIsShadowed {
            small: u8,
            large: u64,
        }
    }

    // Padding after the last field.
    atomseq::nonblocking::plain! {
        #[repr(align(16))]
        struct Aligned {
            key: u64,
        }
    }
}

mod shadowed {
    #![forbid(unsafe_code)]

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
}

fn main() {}
