//! Nor the words of a copy.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare_copy(slot + 16, a, 4);
        commit(slot + 40, b);
    }
}

fn main() {}
