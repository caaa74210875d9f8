//! A sequence is a function over slots and words.

// No sequence at all.
atomseq::sequence! {}

// Not a function.
atomseq::sequence! {
    const A: usize = 1;
}

// `const`.
atomseq::sequence! {
    pub const unsafe fn constant_fn(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// A generic parameter.
atomseq::sequence! {
    pub unsafe fn generic<T>(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// A parameter of another type.
atomseq::sequence! {
    pub unsafe fn parameter_type(slot: Slot, a: usize) {
        commit(slot + 8, a);
    }
}

// A result of another type.
atomseq::sequence! {
    pub unsafe fn result_type(slot: Slot, a: Word, b: Word) -> u32 {
        commit(slot + 8, a);
        a
    }
}

fn main() {}
