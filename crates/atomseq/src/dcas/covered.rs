//! What a domain may own: words, and nothing by which one of them could go while somebody is still
//! at it.

use std::marker::PhantomData;

use super::Cell;

pub use atomseq_macros::Covered;

/// What a [`Domain`](super::Domain) may own: [`Cell`]s, arrays and tuples of them, plain numbers
/// beside them, and structs of such, by `#[derive(Covered)]`.
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
/// By k-CAS, a thread that helps another's operation may still be at a word when that operation is
/// over, and whoever lent the word for it has gone on. So no word may be dropped, moved or set anew
/// before nobody has the domain any more, and what gives out `&mut Cell` by way of a shared
/// reference is refused:
///
/// ```compile_fail,E0277
/// # use atomseq::dcas::{Domain, Cell};
/// let domain = Domain::new(std::sync::Mutex::new(Cell::new(1)));
/// ```
///
/// Nor may a word be in two domains, for neither would know of the other's changes:
///
/// ```compile_fail,E0277
/// # use atomseq::dcas::{Domain, Cell};
/// let domain = Domain::new(Domain::new(Cell::new(1)));
/// ```
///
/// # Safety
///
/// Whoever has a shared reference to it, and no other, can neither get a `&mut Cell` to one of the
/// words that lie in it nor have one dropped or moved. `each_word` visits each of those words, and
/// no word of another domain.
pub unsafe trait Covered {
    /// Hands each word in it to `visit`.
    fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell));
}

// SAFETY: a word itself has no other way to give out `&mut Cell`.
unsafe impl Covered for Cell {
    #[inline]
    fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell)) {
        visit(self);
    }
}

// SAFETY: so many of what is covered, and nothing else.
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
        // SAFETY: its parts are covered, and there is nothing else in it.
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
        // SAFETY: there is no word in it.
        unsafe impl Covered for $type {
            #[inline]
            fn each_word(&mut self, _visit: &mut dyn FnMut(&mut Cell)) {}
        }
    )*};
}

without_words! {
    bool char u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 &'static str String
}

// SAFETY: there is nothing in it.
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
