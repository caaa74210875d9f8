//! A visible store would happen again on every restart.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        store(slot + 8, a);
        commit(slot + 16, b);
    }
}

fn main() {}
