//! `#[derive(Covered)]` on structs that other attributes change after it, and on a type that it
//! could take for another one.
#![forbid(unsafe_code)]

use ::atomseq::dcas::{Cell, Covered};
use std::cell::RefCell;

#[derive(Covered)]
#[verify_hostile::adds_a_field]
struct FieldAdded {
    word: Cell,
}

/// A cell inside another type, where the derive saw a cell.
#[derive(Covered)]
#[verify_hostile::replaces(Cell, RefCell<Cell>)]
struct TypeReplaced {
    cell: Cell,
}

/// A union, where the derive saw a struct.
#[derive(Covered)]
#[verify_hostile::replaces(struct, union)]
struct Union {
    number: u64,
}

/// The module that `::atomseq` means where a token is of the first edition. The trait in it holds
/// for every type.
mod atomseq {
    pub mod dcas {
        pub trait Covered {
            fn each_word(&mut self, _: &mut dyn FnMut(&mut ::atomseq::dcas::Cell)) {}
        }

        impl<T> Covered for T {}
    }
}

type Held = std::sync::Mutex<Cell>;

verify_edition_2015::shelf! { #[derive(Covered)] Shelf }

fn main() {}
