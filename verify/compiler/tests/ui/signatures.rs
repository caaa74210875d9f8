//! Attributes stand before a sequence, and only those whose meaning carries over to its forms.

// `forbid` is refused: the generated code allows lints. It may stand around the macro.
atomseq::sequence! {
    #[forbid(unused)]
    pub unsafe fn attribute_forbid(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// Every form would need it, and the assembly ignores it.
atomseq::sequence! {
    #[target_feature(enable = "avx")]
    pub unsafe fn attribute_target_feature(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// On a statement it would have no effect.
atomseq::sequence! {
    pub unsafe fn attribute_inside(slot: Slot, a: Word, b: Word) {
        #[cfg(debug_assertions)]
        if a == 0 { return }
        commit(slot + 8, b);
    }
}

// On a condition.
atomseq::sequence! {
    pub unsafe fn attribute_on_condition(slot: Slot, a: Word) {
        if #[cfg(any())] (a == 0) { return }
        commit(slot + 8, a);
    }
}

// On parentheses.
atomseq::sequence! {
    pub unsafe fn attribute_on_parentheses(slot: Slot, a: Word) {
        commit(slot + 8, #[cfg(any())] (a));
    }
}

// On a result.
atomseq::sequence! {
    pub unsafe fn attribute_on_result(slot: Slot, a: Word) -> Option<(Word, Word)> {
        commit(slot + 8, a);
        Some(#[cfg(any())] (a, a))
    }
}

// A sequence is a function over slots and words.

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

// A result has the shape that the signature promises.

// A word is promised.
atomseq::sequence! {
    pub unsafe fn result_missing(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
    }
}

// Nothing is promised.
atomseq::sequence! {
    pub unsafe fn result_unpromised(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        a
    }
}

// Two words are promised.
atomseq::sequence! {
    pub unsafe fn result_not_a_pair(slot: Slot, a: Word, b: Word) -> (Word, Word) {
        commit(slot + 8, a);
        a
    }
}

// `true` or `false` is promised.
atomseq::sequence! {
    pub unsafe fn result_not_bool(slot: Slot, a: Word, b: Word) -> bool {
        commit(slot + 8, a);
        a
    }
}

// An option is promised.
atomseq::sequence! {
    pub unsafe fn result_not_option(slot: Slot, a: Word, b: Word) -> Option<Word> {
        if a == 0 { return 0 }
        commit(slot + 8, a);
        Some(a)
    }
}

fn main() {}
