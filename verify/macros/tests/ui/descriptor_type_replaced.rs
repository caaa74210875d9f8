//! A type that the declaration does not show.
#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU64;

atomseq::type_stable::descriptor! {
    #[verify_hostile::replaces(AtomicU64, &'static AtomicU64)]
    pub struct Entry {
        pub key: AtomicU64,
    }
}

fn main() {}
