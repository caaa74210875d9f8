//! Nor its other half.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit32(slot + 4, a);
    }
}

fn main() {}
