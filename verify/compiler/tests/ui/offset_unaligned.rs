//! An offset is a multiple of the access.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let next = load(a + 4);
        commit(slot + 8, next);
    }
}

fn main() {}
