//! `derive(Copy)` that derives something else.
#![forbid(unsafe_code)]

use verify_hostile::replaces as derive;

atomseq::nonblocking::plain! {
    struct Key {
        key: u64,
    }
}

fn main() {}
