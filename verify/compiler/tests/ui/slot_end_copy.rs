//! A copy stays inside the slot too.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare_copy(slot + 64, a, 9);
        commit(slot + 8, b);
    }
}

fn main() {}
