//! What a copy prepares counts.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let old = load(a + 16);
        prepare_copy(a, b, 3);
        commit(slot + 8, old);
    }
}

fn main() {}
