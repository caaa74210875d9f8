//! A type that is another one where it is checked.
#![forbid(unsafe_code)]

atomseq::type_stable::descriptor! {
    struct Changing {
        key: verify_hostile::takes_turns!(),
    }
}

fn main() {}
