//! A word alone does nothing.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        a + b;
        commit(slot + 8, b);
    }
}

fn main() {}
