//! A constant must exist.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + AMOUNT, a);
    }
}

fn main() {}
