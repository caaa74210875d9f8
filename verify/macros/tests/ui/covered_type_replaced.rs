//! A word in a cell, where the derive saw a word.
#![forbid(unsafe_code)]

use std::cell::Cell;

use atomseq::dcas::{Covered, Cell};

#[derive(Covered)]
#[verify_hostile::replaces(Cell, Cell<Cell>)]
struct Shelf {
    word: Cell,
}

fn main() {}
