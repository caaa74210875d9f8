//! A constant of a field's name, which is a descriptor by reference; the field is the reference.
#![forbid(unsafe_code)]
#![allow(non_upper_case_globals)]

atomseq::type_stable::descriptor! {
    #[derive(PartialEq, Eq)]
    pub struct Empty {}
}

const key: &'static Empty = &Empty {};

atomseq::type_stable::descriptor! {
    pub struct Entry {
        pub key: &'static Empty,
    }
}

fn main() {
    let _ = key;
}
