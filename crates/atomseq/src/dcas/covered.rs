//! The types that a domain may own: words, and nothing that could drop or move a word while another
//! thread still uses it.

use std::marker::PhantomData;

use super::Cell;

pub use atomseq_macros::Covered;

/// Types that a [`Domain`](super::Domain) may own: [`Cell`]s, arrays and tuples of them, and
/// structs of all these, by `#[derive(Covered)]`. Beside the cells there may be integers, floats,
/// `bool`, `char`, `String`, `&'static str` and `PhantomData`.
///
/// ```
/// use atomseq::dcas::{Covered, Domain, Cell};
///
/// #[derive(Covered)]
/// struct Shelf<const N: usize> {
///     places: u32,
///     taken: Cell,
///     numbers: [Cell; N],
/// }
/// let shelf = Domain::new(Shelf { places: 3, taken: Cell::new(0), numbers: <[Cell; 3]>::default() });
/// assert_eq!(shelf.load(&shelf.numbers[2]), 0);
/// ```
///
/// Under k-CAS a helper may still access a word after the operation that it helps is over, and
/// after that operation's caller has returned. So a word must not be dropped, moved or replaced
/// while any thread has a reference to the domain. Types that give out `&mut Cell` through a shared
/// reference are therefore refused:
///
/// ```compile_fail,E0277
/// # use atomseq::dcas::{Domain, Cell};
/// let domain = Domain::new(std::sync::Mutex::new(Cell::new(1)));
/// ```
///
/// A word must not lie in two domains either, because each would miss the other's changes:
///
/// ```compile_fail,E0277
/// # use atomseq::dcas::{Domain, Cell};
/// let domain = Domain::new(Domain::new(Cell::new(1)));
/// ```
///
/// # Safety
///
/// Given only a shared reference to a value of this type, code can neither get a `&mut Cell` to a
/// word that lies in it, nor drop or move such a word. `each_word` visits each of these words, and
/// no word of another domain.
#[diagnostic::on_unimplemented(
    message = "a `Domain` cannot own a `{Self}`",
    label = "does not implement `Covered`",
    note = "use `Cell`s, arrays and tuples of them, plain values beside them, or a struct of all \
            these with `#[derive(atomseq::dcas::Covered)]`"
)]
pub unsafe trait Covered {
    /// Calls `visit` with each word in this value.
    fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell));
}

// SAFETY: a shared reference to a cell gives out no `&mut Cell`, and its only word is visited.
unsafe impl Covered for Cell {
    #[inline]
    fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell)) {
        visit(self);
    }
}

// SAFETY: an array gives out a `&mut` to an element only through a `&mut` to itself. Its elements
// are `Covered`, and all are visited.
unsafe impl<C: Covered, const N: usize> Covered for [C; N] {
    #[inline]
    fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell)) {
        for covered in self {
            covered.each_word(visit);
        }
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {$(
        // SAFETY: a tuple gives out a `&mut` to a field only through a `&mut` to itself. Its fields
        // are `Covered`, and all are visited.
        unsafe impl<$($name: Covered),*> Covered for ($($name,)*) {
            #[inline]
            #[allow(non_snake_case, reason = "the names of the types serve for the values")]
            fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell)) {
                let ($($name,)*) = self;
                $($name.each_word(visit);)*
                let _ = visit;
            }
        }
    )*};
}

tuples! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

macro_rules! without_words {
    ($($type:ty)*) => {$(
        // SAFETY: the type contains no word.
        unsafe impl Covered for $type {
            #[inline]
            fn each_word(&mut self, _visit: &mut dyn FnMut(&mut Cell)) {}
        }
    )*};
}

without_words! {
    bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 &'static str String
}

// SAFETY: the type is empty.
unsafe impl<T: ?Sized> Covered for PhantomData<T> {
    #[inline]
    fn each_word(&mut self, _visit: &mut dyn FnMut(&mut Cell)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Covered)]
    struct Nothing;

    #[derive(Covered)]
    struct Two(Cell, u8, Cell);

    #[derive(Covered)]
    struct Many<C, const N: usize> {
        _name: &'static str,
        several: [C; N],
        pair: (Cell, Cell),
        _nothing: Nothing,
    }

    #[test]
    fn each_word_is_visited_once() {
        let two = || Two(Cell::new(1), 9, Cell::new(1));
        let mut many = Many {
            _name: "many",
            several: [two(), two(), two()],
            pair: (Cell::new(1), Cell::new(1)),
            _nothing: Nothing,
        };
        let mut visits = 0;
        many.each_word(&mut |word| {
            visits += word.value();
            word.set(0);
        });
        assert_eq!(visits, 8);
    }
}
