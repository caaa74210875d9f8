//! A parameter is assigned once.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, mut a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
