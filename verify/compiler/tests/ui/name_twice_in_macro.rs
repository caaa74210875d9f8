//! A `let` of a `macro_rules!` never stands for the parameter of the same name that the caller
//! chose.

macro_rules! fetch_add {
    ($name:ident($place:ident, $by:ident)) => {
        atomseq::sequence! {
            pub unsafe fn $name($place: Word, $by: Word) -> Word {
                let old = load($place);
                commit($place, old + $by);
                old
            }
        }
    };
}

fetch_add!(accepted(place, by));
fetch_add!(refused(place, old));

fn main() {}
