//! Nor as the committed word.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let own = slot;
        commit(slot + 8, own);
    }
}

fn main() {}
