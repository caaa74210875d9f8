//! A word in a cell, where the derive saw a word.
#![forbid(unsafe_code)]

use std::cell::Cell;

use atomseq::dcas::{Covered, Word};

#[derive(Covered)]
#[verify_hostile::replaces(Word, Cell<Word>)]
struct Shelf {
    word: Word,
}

fn main() {}
