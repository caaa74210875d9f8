//! Names: a sequence whose condition does not hold is absent, and a constant has the name by which
//! the derive calls a field.
#![allow(non_upper_case_globals)]

use atomseq::dcas::{Cell, Covered};

atomseq::sequence! {
    #[cfg(any())]
    unsafe fn absent(word: Word) -> Word { load(word) }
}

const __atomseq_field_0: () = ();

#[derive(Covered)]
struct Shelf {
    _nothing: (),
    word: Cell,
}

fn main() {
    let _ = absent::MODEL;
    let _ = __atomseq_field_0;
}
