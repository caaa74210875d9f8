//! A literal is an integer.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, true);
    }
}

fn main() {}
