//! A field from an attribute that comes after the derive.
#![forbid(unsafe_code)]

use atomseq::dcas::{Covered, Cell};

#[derive(Covered)]
#[verify_hostile::adds_a_field]
struct Shelf {
    word: Cell,
}

fn main() {}
