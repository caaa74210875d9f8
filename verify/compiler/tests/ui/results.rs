//! A result has the shape that the signature promises.

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
