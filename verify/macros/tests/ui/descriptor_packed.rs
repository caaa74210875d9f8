//! Atomics that are not aligned.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU64};

atomseq::type_stable::descriptor! {
    #[repr(packed)]
    pub struct Entry {
        pub small: AtomicU8,
        pub key: AtomicU64,
    }
}

fn main() {}
