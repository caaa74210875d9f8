//! A copy that moves words within themselves cannot start again.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare_copy(a, a + 8, 4);
        commit(slot + 8, b);
    }
}

fn main() {}
