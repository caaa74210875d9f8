//! A restartable sequence ends in one visible store; the errors of all sequences are reported.

// No store becomes visible.
atomseq::sequence! {
    pub unsafe fn no_commit(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
    }
}

// The same without a slot.
atomseq::sequence! {
    pub unsafe fn only_prepared(a: Word) {
        prepare(a, 1);
    }
}

// It only reads, which needs no sequence.
atomseq::sequence! {
    pub fn only_read(slot: Slot) -> Word {
        load(slot + 8)
    }
}

// Two sequences in one macro: an error for each.
atomseq::sequence! {
    pub unsafe fn first(slot: Slot, a: Word) {
        prepare(slot + 8, a);
    }

    pub unsafe fn second(slot: Slot, a: Word) {
        commit(slot + 8, b);
    }
}

fn main() {}
