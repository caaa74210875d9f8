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

fn main() {}
