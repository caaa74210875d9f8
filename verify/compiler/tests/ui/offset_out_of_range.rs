//! An offset fits one instruction everywhere.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let next = load(a + 65536);
        commit(slot + 8, next);
    }
}

fn main() {}
