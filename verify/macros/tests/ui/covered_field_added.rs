//! A field from an attribute that comes after the derive.
#![forbid(unsafe_code)]

use atomseq::dcas::{Covered, Word};

#[derive(Covered)]
#[verify_hostile::adds_a_field]
struct Shelf {
    word: Word,
}

fn main() {}
