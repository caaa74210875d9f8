//! A reference, which a fresh descriptor has as null.
#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU64;

atomseq::type_stable::descriptor! {
    #[verify_hostile::adds_a_field]
    pub struct Entry {
        pub key: AtomicU64,
    }
}

fn main() {}
