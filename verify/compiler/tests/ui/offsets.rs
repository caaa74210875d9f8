//! An offset fits one load or store of every architecture, and is a multiple of its width.

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
