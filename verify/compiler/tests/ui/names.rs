//! Each word has one name in lower case and is assigned once. Names in capitals are constants.
//! Names are compared as text, without `r#`, wherever they were written.

// A second assignment.
atomseq::sequence! {
    pub unsafe fn assignment(slot: Slot, a: Word, b: Word) {
        let next = a;
        next = b;
        commit(slot + 8, next);
    }
}

// `let mut`.
atomseq::sequence! {
    pub unsafe fn mutable(slot: Slot, a: Word, b: Word) {
        let mut next = a;
        commit(slot + 8, next);
    }
}

// A pattern.
atomseq::sequence! {
    pub unsafe fn pattern(slot: Slot, a: Word, b: Word) {
        let (first, second) = a;
        commit(slot + 8, first);
    }
}

// A second `let` of one name.
atomseq::sequence! {
    pub unsafe fn name_twice(slot: Slot, a: Word) {
        let b = a + 1;
        let b = b + 1;
        commit(slot + 8, b);
    }
}

// A `let` in a `macro_rules!` whose caller chose the same name for a parameter.
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
fetch_add!(name_twice_in_macro(place, old));

// A `let` in capitals, though such a constant exists.
const NEXT: usize = 7;

atomseq::sequence! {
    pub unsafe fn capital_let(slot: Slot, a: Word, b: Word) {
        let NEXT = load(slot + 16);
        commit(slot + 8, NEXT);
    }
}

// The same, written as a raw identifier.
atomseq::sequence! {
    pub unsafe fn raw_capital_let(slot: Slot) {
        let r#LIMIT = load(slot + 8);
        commit(slot + 8, r#LIMIT + 1);
    }
}

// A name that is neither a parameter nor a `let` above.
atomseq::sequence! {
    pub unsafe fn unknown_name(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, amuont);
    }
}

// A parameter in capitals.
atomseq::sequence! {
    pub unsafe fn parameter_in_capitals(slot: Slot, A: Word) {
        commit(slot + 8, A);
    }
}

// A parameter that may change.
atomseq::sequence! {
    pub unsafe fn parameter_mutable(slot: Slot, mut a: Word) {
        commit(slot + 8, a);
    }
}

// One name for two parameters.
atomseq::sequence! {
    pub unsafe fn parameter_twice(slot: Slot, a: Word, a: Word) {
        commit(slot + 8, a);
    }
}

// The same with a raw identifier, and one of both from a macro.
macro_rules! both {
    ($a:ident) => {
        atomseq::sequence! {
            pub unsafe fn parameter_twice_raw(to: Word, $a: Word, r#a: Word) {
                store(to, $a);
            }
        }
    };
}

both!(a);

fn main() {}
