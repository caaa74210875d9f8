//! The gate is not the sequence's to change.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot, a);
    }
}

fn main() {}
