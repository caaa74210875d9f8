//! A cell in another one, where the derive saw one.
#![forbid(unsafe_code)]

use std::cell::RefCell;

use atomseq::dcas::{Covered, Cell};

#[derive(Covered)]
#[verify_hostile::replaces(Cell, RefCell<Cell>)]
struct Shelf {
    cell: Cell,
}

fn main() {}
