//! As large as the type that the declaration shows, and no number.
#![forbid(unsafe_code)]

atomseq::nonblocking::plain! {
    #[verify_hostile::replaces(u64, &'static u64)]
    struct Referring {
        key: u64,
    }
}

fn main() {}
