//! The committed word is not prepared as well: the first of the two stores would be visible early.

// The same word.
atomseq::sequence! {
    pub unsafe fn committed_is_prepared(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
        commit(slot + 8, b);
    }
}

// A half of a prepared word.
atomseq::sequence! {
    pub unsafe fn committed_half_is_prepared(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
        commit32(slot + 12, b);
    }
}

// A word of a copy.
atomseq::sequence! {
    pub unsafe fn committed_is_copied_to(slot: Slot, a: Word, b: Word) {
        prepare_copy(slot + 16, a, 4);
        commit(slot + 40, b);
    }
}

// A word that a copy of at most so many words may reach.
atomseq::sequence! {
    pub unsafe fn copied_under_mask_is_committed(slot: Slot, a: Word, words: Word) {
        prepare_copy(slot + 16, a, min(load(a) & 3, words));
        commit(slot + 32, 7);
    }
}

fn main() {}
