//! The token of a field's type is of the first edition, where `::atomseq` is a module of this
//! crate. The trait that is in there holds for every type.
#![forbid(unsafe_code)]

use ::atomseq::dcas::{Covered, Cell};

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
