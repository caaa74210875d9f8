//! A prepared word is loaded only after it is prepared.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let old = load(a + 8);
        prepare(a + 8, b);
        commit(slot + 8, old);
    }
}

fn main() {}
