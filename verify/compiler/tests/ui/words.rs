//! Everything is a word: literals are integers, addresses start from a word, operators are few.

// A literal that is no integer.
atomseq::sequence! {
    pub unsafe fn literal_no_integer(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, true);
    }
}

// A literal of a narrower type.
atomseq::sequence! {
    pub unsafe fn literal_suffix(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, 1u32);
    }
}

// A literal beyond 64 bits.
atomseq::sequence! {
    pub unsafe fn literal_too_large(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, 0x1_0000_0000_0000_0000);
    }
}

// A constant as an address.
atomseq::sequence! {
    pub unsafe fn constant_address(slot: Slot, a: Word, b: Word) {
        commit(4096, a);
    }
}

// A constant as an address of a copy.
atomseq::sequence! {
    pub unsafe fn constant_copied_to(slot: Slot, a: Word, b: Word) {
        prepare_copy(4096, a, 1);
        commit(slot + 8, a);
    }
}

// A cast.
atomseq::sequence! {
    pub unsafe fn cast(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a as u32);
    }
}

// A comparison as a word.
atomseq::sequence! {
    pub unsafe fn comparison_as_word(slot: Slot, a: Word, b: Word) {
        let less = a < b;
        commit(slot + 8, less);
    }
}

// A store as a word.
atomseq::sequence! {
    pub unsafe fn effect_as_word(slot: Slot, a: Word, b: Word) {
        let done = prepare(slot + 16, a);
        commit(slot + 8, done);
    }
}

// An operator that the language lacks.
atomseq::sequence! {
    pub unsafe fn division(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a / b);
    }
}

// A unary operator other than `!`.
atomseq::sequence! {
    pub unsafe fn negation(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, -a);
    }
}

// An offset fits one load or store of every architecture, and is a multiple of its width.

// Not a multiple of 8.
atomseq::sequence! {
    pub unsafe fn offset_unaligned(slot: Slot, a: Word, b: Word) {
        let next = load(a + 4);
        commit(slot + 8, next);
    }
}

// Too far.
atomseq::sequence! {
    pub unsafe fn offset_out_of_range(slot: Slot, a: Word, b: Word) {
        let next = load(a + 65536);
        commit(slot + 8, next);
    }
}

// Another value where words have 32 bits.
atomseq::sequence! {
    pub unsafe fn offset_by_width(slot: Slot, a: Word, b: Word) {
        commit(slot + ((1 << 16) * (1 << 16) >> 28), a);
    }
}

fn main() {}
