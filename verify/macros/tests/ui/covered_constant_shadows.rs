//! A constant of the name by which the derive calls a field.
#![forbid(unsafe_code)]
#![allow(non_upper_case_globals)]

use atomseq::dcas::{Covered, Word};

const field_0: () = ();

#[derive(Covered)]
struct Shelf {
    _nothing: (),
    word: Word,
}

fn main() {
    let _ = field_0;
}
