//! A field that the declaration does not show.
#![forbid(unsafe_code)]

atomseq::nonblocking::plain! {
    #[verify_hostile::adds_a_field]
    struct Named {
        key: u64,
    }
}

fn main() {}
