//! A prepared word is not loaded before it is prepared: after a restart it holds what the
//! interrupted attempt left there.

// The same word.
atomseq::sequence! {
    pub unsafe fn prepared_loaded_before(slot: Slot, a: Word, b: Word) {
        let old = load(a + 8);
        prepare(a + 8, b);
        commit(slot + 8, old);
    }
}

// A half of it.
atomseq::sequence! {
    pub unsafe fn prepared_loaded_half(slot: Slot, a: Word, b: Word) {
        let old = load32(a + 12);
        prepare(a + 8, b);
        commit(slot + 8, old);
    }
}

// The same sum, computed twice.
atomseq::sequence! {
    pub unsafe fn prepared_loaded_by_alias(slot: Slot, a: Word, b: Word) {
        let cell = a + (b << 3);
        let same = a + (b << 3);
        let old = load(cell);
        prepare(same + 0, b);
        commit(slot + 8, old);
    }
}

// A word that a copy prepares.
atomseq::sequence! {
    pub unsafe fn copied_to_loaded_before(slot: Slot, a: Word, b: Word) {
        let old = load(a + 16);
        prepare_copy(a, b, 3);
        commit(slot + 8, old);
    }
}

// A word that a copy of at most 64 words may prepare.
atomseq::sequence! {
    pub unsafe fn copied_at_most_is_loaded_before(slot: Slot, a: Word, b: Word, words: Word) -> Word {
        let old = load(b + 504);
        prepare_copy(b, a, min(words, 64));
        commit(slot + 8, old);
        old
    }
}

// A copy of perhaps no word does not prepare its first one.
atomseq::sequence! {
    pub unsafe fn perhaps_copied_to_loaded_before(slot: Slot, a: Word, words: Word) {
        prepare_copy(slot + 16, a, min(words, 4));
        let old = load(slot + 16);
        prepare(slot + 16, words);
        commit(slot + 8, old);
    }
}

// A copy reads a word that is prepared later.
atomseq::sequence! {
    pub unsafe fn copied_from_prepared(slot: Slot, a: Word, b: Word) {
        prepare_copy(b, a, 2);
        prepare(a + 8, b);
        commit(slot + 8, a);
    }
}

// A copy whose target overlaps its source cannot be repeated.
atomseq::sequence! {
    pub unsafe fn copy_onto_itself(slot: Slot, a: Word, b: Word) {
        prepare_copy(a, a + 8, 4);
        commit(slot + 8, b);
    }
}

// The committed word is not prepared as well: the first of the two stores would be visible early.

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
