//! A type that is another one where it is checked.
#![forbid(unsafe_code)]

atomseq::memory::descriptor! {
    struct Changing {
        key: verify_hostile::takes_turns!(),
    }
}

fn main() {}
