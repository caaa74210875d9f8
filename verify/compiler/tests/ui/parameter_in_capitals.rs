//! A parameter is in lower case.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, A: Word) {
        commit(slot + 8, A);
    }
}

fn main() {}
