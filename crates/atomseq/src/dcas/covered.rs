//! The types that a domain may own: words, and nothing that could drop or move a word while another
//! thread still uses it.

use std::marker::PhantomData;

use super::Cell;

pub use atomseq_macros::Covered;

/// Types that a [`Domain`](super::Domain) may own: [`Cell`]s, arrays and tuples of them, boxed
/// slices and vectors, whose length is chosen at run time, and structs of all these, by
/// `#[derive(Covered)]`. Beside the cells there may be integers, floats,
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
///
/// let places = shelf.places as usize;
/// let row: Domain<Box<[Cell]>> = Domain::new((0..places).map(|_| Cell::new(0)).collect());
/// assert_eq!(row.load(&row[2]), 0);
/// ```
///
/// Each operation checks each of its words: does the domain own it? For words in the value itself,
/// and in one boxed slice or vector of cells, this takes a few comparisons. Where boxed slices or
/// vectors are elements of an array, a slice or a vector, as in `Domain<Vec<Box<[Cell]>>>`, the
/// check is a linear search over them: its time grows with the number of rows. For many rows, use
/// one slice and compute the index.
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
/// word that it owns, nor drop or move such a word. `each_word` visits each of these words, and no
/// word of another domain. `owns_elsewhere` returns true only for these words.
#[diagnostic::on_unimplemented(
    message = "a `Domain` cannot own a `{Self}`",
    label = "does not implement `Covered`",
    note = "use `Cell`s, arrays and tuples of them, plain values beside them, or a struct of all \
            these with `#[derive(atomseq::dcas::Covered)]`"
)]
pub unsafe trait Covered {
    /// Calls `visit` with each word in this value.
    fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell));

    /// Returns whether the word at this address is one of those that this value owns in other
    /// memory than its own bytes: in that of a boxed slice.
    #[inline]
    fn owns_elsewhere(&self, _word: usize) -> bool {
        false
    }
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

    #[inline]
    fn owns_elsewhere(&self, word: usize) -> bool {
        self.iter().any(|covered| covered.owns_elsewhere(word))
    }
}

macro_rules! on_the_heap {
    ($($owner:ty)*) => {$(
        // SAFETY: the owner gives out a `&mut` to an element, drops it or moves it only through a
        // `&mut` to itself. Its elements are `Covered`, and all are visited.
        unsafe impl<C: Covered> Covered for $owner {
            #[inline]
            fn each_word(&mut self, visit: &mut dyn FnMut(&mut Cell)) {
                for covered in self.iter_mut() {
                    covered.each_word(visit);
                }
            }

            #[inline]
            fn owns_elsewhere(&self, word: usize) -> bool {
                let elements: &[C] = self;
                word.wrapping_sub(elements.as_ptr().addr()) < size_of_val(elements)
                    || elements.iter().any(|covered| covered.owns_elsewhere(word))
            }
        }
    )*};
}

on_the_heap!(Box<[C]> Vec<C>);

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

            #[inline]
            #[allow(non_snake_case, reason = "the names of the types serve for the values")]
            fn owns_elsewhere(&self, word: usize) -> bool {
                let ($($name,)*) = self;
                let _ = word;
                false $(|| $name.owns_elsewhere(word))*
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

    #[derive(Covered)]
    struct Rows {
        _name: String,
        rows: Vec<Box<[Cell]>>,
        last: Box<[(Cell, u8)]>,
    }

    #[test]
    fn words_on_the_heap_are_owned_and_visited() {
        let row = |words| (0..words).map(|_| Cell::new(1)).collect();
        let mut rows = Rows {
            _name: "rows".to_owned(),
            rows: vec![row(3), row(0), row(5)],
            last: Box::new([(Cell::new(1), 0)]),
        };
        let own = |rows: &Rows, word: &Cell| rows.owns_elsewhere(std::ptr::from_ref(word).addr());
        let words = rows.rows.iter().flatten().chain([&rows.last[0].0]);
        assert!(words.map(|word| own(&rows, word)).eq([true; 9]));
        let (others, end) = (row(4), rows.rows[0].as_ptr_range().end);
        let others: &[Cell] = &others;
        assert!(!others.iter().any(|word| own(&rows, word)));
        assert!(others.as_ptr() == end || !rows.owns_elsewhere(end.addr()));
        let mut visits = 0;
        rows.each_word(&mut |word| visits += word.value());
        assert_eq!(visits, 9);
    }
}
