//! What a copy reads counts.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare_copy(b, a, 2);
        prepare(a + 8, b);
        commit(slot + 8, a);
    }
}

fn main() {}
