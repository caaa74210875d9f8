//! A union has padding wherever its fields differ.
#![forbid(unsafe_code)]

atomseq::nonblocking::plain! {
    #[verify_hostile::replaces(struct, union)]
    struct One {
        key: u64,
    }
}

fn main() {}
