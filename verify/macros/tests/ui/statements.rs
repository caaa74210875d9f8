//! A sequence calls nothing but the language's own operations, each with its number of arguments.

// A commit takes an address and a word.
atomseq::sequence! {
    pub unsafe fn argument_count(slot: Slot, a: Word, b: Word) {
        commit(slot + 8);
    }
}

// A load takes an address.
atomseq::sequence! {
    pub unsafe fn argument_count_load(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, load(a, b));
    }
}

// A function by a path.
atomseq::sequence! {
    pub unsafe fn call_of_a_path(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, core::cmp::min(a, b));
    }
}

// A function by its name: the message lists the operations.
atomseq::sequence! {
    pub unsafe fn unknown_call(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, popcount(a));
    }
}

// A method.
atomseq::sequence! {
    pub unsafe fn method_call(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a.count_ones());
    }
}

// A macro.
atomseq::sequence! {
    pub unsafe fn macro_call(slot: Slot, a: Word, b: Word) {
        dbg!(a);
        commit(slot + 8, a);
    }
}

// A word that is loaded is used, and a statement has an effect.

// A `let` that nothing reads.
atomseq::sequence! {
    pub unsafe fn word_never_used(slot: Slot, a: Word, b: Word) {
        let next = load(a);
        commit(slot + 8, b);
    }
}

// A load as a statement.
atomseq::sequence! {
    pub unsafe fn load_as_statement(slot: Slot, a: Word, b: Word) {
        load(a);
        commit(slot + 8, b);
    }
}

// A sum as a statement.
atomseq::sequence! {
    pub unsafe fn statement_without_effect(slot: Slot, a: Word, b: Word) {
        a + b;
        commit(slot + 8, b);
    }
}

// A `cas` whose outcome is dropped.
atomseq::sequence! {
    pub unsafe fn cas_never_used(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        cas(lock, 0, 1);
        commit(lock, 0);
        0
    }
}

// Each word has one name in lower case and is assigned once. Names in capitals are constants.
// Names are compared as text, without `r#`, wherever they were written.

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
