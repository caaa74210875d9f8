//! A number, which could be a word as well were there another field.
#![forbid(unsafe_code)]

use atomseq::dcas::Covered;

#[derive(Covered)]
#[verify_hostile::replaces(struct, union)]
struct Shelf {
    number: u64,
}

fn main() {}
