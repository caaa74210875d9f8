//! A type that is another one where it is checked.
#![forbid(unsafe_code)]

atomseq::local::per_thread! {
    static CHANGING: verify_hostile::takes_turns!() = &"";
}

fn main() {}
