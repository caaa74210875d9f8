//! What this file calls `derive` is not what the macro derives by.
#![forbid(unsafe_code)]
#![allow(unused_imports)]

mod adds_a_field {
    use verify_hostile::adds_a_field as derive;

    atomseq::nonblocking::plain! {
        pub struct Named {
            pub key: u64,
        }
    }
}

mod replaces {
    use verify_hostile::replaces as derive;

    atomseq::nonblocking::plain! {
        pub struct Named {
            pub key: u64,
        }
    }
}

fn is_plain<P: atomseq::nonblocking::Plain>() -> usize {
    size_of::<P>()
}

fn main() {
    assert_eq!(is_plain::<adds_a_field::Named>() + is_plain::<replaces::Named>(), 16);
}
