//! Nor the word around its half.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
        commit32(slot + 12, b);
    }
}

fn main() {}
