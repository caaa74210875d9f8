//! No calls.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, popcount(a));
    }
}

fn main() {}
