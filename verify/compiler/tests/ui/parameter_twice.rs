//! A parameter is there once.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
