//! Words, offsets, lengths. Literals are integers, addresses start from a word, operators are few.

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

// A sequence fits between two interruptions and into the registers.

// At most 32 machine instructions.
atomseq::sequence! {
    pub unsafe fn too_long(slot: Slot, a: Word, b: Word) {
        prepare(a + 0, b);
        prepare(a + 8, b);
        prepare(a + 16, b);
        prepare(a + 24, b);
        prepare(a + 32, b);
        prepare(a + 40, b);
        prepare(a + 48, b);
        prepare(a + 56, b);
        prepare(a + 64, b);
        prepare(a + 72, b);
        prepare(a + 80, b);
        prepare(a + 88, b);
        prepare(a + 96, b);
        prepare(a + 104, b);
        prepare(a + 112, b);
        prepare(a + 120, b);
        prepare(a + 128, b);
        prepare(a + 136, b);
        prepare(a + 144, b);
        prepare(a + 152, b);
        prepare(a + 160, b);
        prepare(a + 168, b);
        prepare(a + 176, b);
        prepare(a + 184, b);
        prepare(a + 192, b);
        prepare(a + 200, b);
        prepare(a + 208, b);
        prepare(a + 216, b);
        prepare(a + 224, b);
        prepare(a + 232, b);
        commit(slot + 8, a);
    }
}

// No more words at once than registers.
atomseq::sequence! {
    pub unsafe fn too_many_words(slot: Slot, a: Word, b: Word) {
        let w0 = load(a + 0);
        let w1 = load(a + 8);
        let w2 = load(a + 16);
        let w3 = load(a + 24);
        let w4 = load(a + 32);
        let w5 = load(a + 40);
        let w6 = load(a + 48);
        let w7 = load(a + 56);
        let w8 = load(a + 64);
        let w9 = load(a + 72);
        let w10 = load(a + 80);
        let w11 = load(a + 88);
        let w12 = load(a + 96);
        prepare(b + 0, w0);
        prepare(b + 8, w1);
        prepare(b + 16, w2);
        prepare(b + 24, w3);
        prepare(b + 32, w4);
        prepare(b + 40, w5);
        prepare(b + 48, w6);
        prepare(b + 56, w7);
        prepare(b + 64, w8);
        prepare(b + 72, w9);
        prepare(b + 80, w10);
        prepare(b + 88, w11);
        commit(slot + 8, w12);
    }
}

fn main() {}
