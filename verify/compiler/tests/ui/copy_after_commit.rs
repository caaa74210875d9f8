//! Nothing is copied after the commit.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        prepare_copy(b, slot + 16, 2);
    }
}

fn main() {}
