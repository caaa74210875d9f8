//! A condition is one comparison that depends on a word; only `if … { return … }` branches.

// Two comparisons.
atomseq::sequence! {
    pub unsafe fn condition_and(slot: Slot, a: Word, b: Word) {
        if a == 0 && b == 0 { return }
        commit(slot + 8, a);
    }
}

// A word is no condition.
atomseq::sequence! {
    pub unsafe fn condition_no_comparison(slot: Slot, a: Word, b: Word) {
        if a & 1 { return }
        commit(slot + 8, a);
    }
}

// A condition that never changes.
atomseq::sequence! {
    pub unsafe fn condition_constant(slot: Slot, a: Word, b: Word) {
        if 1 == 2 { return }
        commit(slot + 8, a);
    }
}

// An `if` as a word.
atomseq::sequence! {
    pub unsafe fn branch_as_value(slot: Slot, a: Word, b: Word) {
        let larger = if a < b { b } else { a };
        commit(slot + 8, larger);
    }
}

// `match`.
atomseq::sequence! {
    pub unsafe fn match_on_word(slot: Slot, a: Word, b: Word) {
        match a {
            _ => commit(slot + 8, a),
        }
    }
}

fn main() {}
