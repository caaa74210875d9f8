//! One slot, one gate.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, other: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
