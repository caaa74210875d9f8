//! A copy leaves the gate alone too.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare_copy(slot, a, 2);
        commit(slot + 24, b);
    }
}

fn main() {}
