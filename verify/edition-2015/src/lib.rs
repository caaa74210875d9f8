//! Macros whose tokens are of the first edition: there, a path that begins with `::` begins at the
//! root of the crate in which it stands. What atomseq's macros are given may have such tokens in
//! it, wherever they are used.

/// A struct of one field, of the type that the place of use calls `Held`.
#[macro_export]
macro_rules! shelf {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        pub struct $name {
            word: Held,
        }
    };
}

/// A static of a type that the place of use calls `Held`, by atomseq's macro.
#[macro_export]
macro_rules! per_thread {
    ($name:ident = $value:expr) => {
        atomseq::local::per_thread! {
            pub static $name: Held = $value;
        }
    };
}

/// A sequence with a constant that the place of use calls `STEP`.
#[macro_export]
macro_rules! sequence {
    ($name:ident) => {
        atomseq::sequence! {
            unsafe fn $name(at: Word) -> Word {
                let old = load(at + 8);
                commit(at + 8, min(old, 70000000000) + (STEP << 1));
                old
            }
        }
    };
}
