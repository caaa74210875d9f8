//! A constant of the name by which the derive calls a field.
#![forbid(unsafe_code)]
#![allow(non_upper_case_globals)]

use atomseq::dcas::{Covered, Cell};

const __atomseq_field_0: () = ();

#[derive(Covered)]
struct Shelf {
    _nothing: (),
    word: Cell,
}

fn main() {
    let _ = __atomseq_field_0;
}
