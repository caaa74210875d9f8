//! What the macro calls `derive` is an attribute of this file's.
#![forbid(unsafe_code)]

use verify_hostile::adds_a_field as derive;

atomseq::nonblocking::plain! {
    struct Named {
        key: u64,
    }
}

fn main() {}
