//! Nothing is stored after the commit.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        prepare(slot + 16, b);
    }
}

fn main() {}
