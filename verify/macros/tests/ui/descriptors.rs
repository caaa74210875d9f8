//! Declarations of descriptors whose struct differs from the declaration.
#![forbid(unsafe_code)]
#![allow(non_upper_case_globals)]

use std::sync::atomic::{AtomicU8, AtomicU64};

use atomseq::type_stable::descriptor;

descriptor! {
    #[derive(PartialEq, Eq)]
    pub struct Empty {}
}

// A constant of a field's name is a descriptor by reference; the field is the reference.
const key: &'static Empty = &Empty {};

descriptor! {
    pub struct ConstantShadows {
        pub key: &'static Empty,
    }
}

// A reference, which would be null in a fresh descriptor.
descriptor! {
    #[verify_hostile::adds_a_field]
    pub struct FieldAdded {
        pub value: AtomicU64,
    }
}

// Atomics that are not aligned.
descriptor! {
    #[repr(packed)]
    pub struct Packed {
        pub small: AtomicU8,
        pub large: AtomicU64,
    }
}

descriptor! {
    #[verify_hostile::replaces(AtomicU64, &'static AtomicU64)]
    pub struct TypeReplaced {
        pub value: AtomicU64,
    }
}

// A type that differs where it is checked.
descriptor! {
    struct TypeTakesTurns {
        value: verify_hostile::takes_turns!(),
    }
}

fn main() {
    let _ = key;
}
