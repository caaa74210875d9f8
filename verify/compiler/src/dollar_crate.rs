//! Sequences of a `macro_rules!` that name a constant of this crate by `$crate`, beside one of the
//! caller's. In another crate both may be written the same and mean different constants.

/// Differs from the constants of that name in `tests`.
pub const SIZE: usize = 1000;

/// Adds a constant of the caller's, and one of this crate's, to a word; stores the first sum and
/// returns both.
#[macro_export]
macro_rules! add_sizes {
    ($name:ident, $callers:expr) => {
        ::atomseq::sequence! {
            /// Adds the one and the other.
            pub unsafe fn $name(word: Word) -> (Word, Word) {
                let found = load(word);
                let first = found + $callers;
                let second = found + $crate::dollar_crate::SIZE;
                commit(word, first);
                (first, second)
            }
        }
    };
}
