//! What rustc judges of prepared words, where an offset or a length is a named constant.

const FIRST: usize = 16;
const SECOND: usize = 16;
const NONE: usize = 0;
const FOUR: usize = 4;
const NINE: usize = 9;
const SIXTY_FOUR: usize = 64;

// The committed word is prepared under another constant's name.
atomseq::sequence! {
    pub unsafe fn committed_is_prepared_by_constant(slot: Slot, a: Word, b: Word) {
        prepare(slot + FIRST, a);
        commit(slot + SECOND, b);
    }
}

// A copy of four words reaches the committed word.
atomseq::sequence! {
    pub unsafe fn copied_by_constant_is_committed(slot: Slot, a: Word) {
        prepare_copy(slot + 16, a, FOUR);
        commit(slot + 40, 7);
    }
}

// So does a copy of at most four.
atomseq::sequence! {
    pub unsafe fn copied_at_most_a_constant_is_committed(slot: Slot, a: Word, words: Word) {
        let bounded = min(words, FOUR);
        prepare_copy(slot + 16, a, bounded);
        commit(slot + 40, 7);
    }
}

// A word is loaded, then prepared under another constant's name.
atomseq::sequence! {
    pub unsafe fn prepared_loaded_by_constant(slot: Slot, a: Word, b: Word) {
        let old = load(a + FIRST);
        prepare(a + SECOND, b);
        commit(slot + 8, old);
    }
}

// A copy of 64 words reaches a word that was loaded.
atomseq::sequence! {
    pub unsafe fn copied_by_constant_is_loaded_before(slot: Slot, a: Word, b: Word) -> Word {
        let old = load(b + 504);
        prepare_copy(b, a, SIXTY_FOUR);
        commit(slot + 8, old);
        old
    }
}

// A copy whose target overlaps its source.
atomseq::sequence! {
    pub unsafe fn copied_by_constant_onto_itself(slot: Slot) {
        prepare_copy(slot + 16, slot + 40, FOUR);
        commit(slot + 72, 7);
    }
}

// The word after the last that a copy prepares is not prepared yet.
atomseq::sequence! {
    pub unsafe fn copied_short_of_loaded(slot: Slot, a: Word) {
        prepare_copy(slot + 16, a, NINE);
        let last = load(slot + 80);
        let next = load(slot + 88);
        prepare(slot + 80, next);
        prepare(slot + 88, last);
        commit(slot + 8, a);
    }
}

// A copy of no word prepares nothing.
atomseq::sequence! {
    pub unsafe fn constant_copied_of_no_word(slot: Slot, a: Word) {
        prepare_copy(slot + 16, a, NONE);
        let old = load(slot + 16);
        prepare(slot + 16, a);
        commit(slot + 8, old);
    }
}

fn main() {}
