//! Nothing is computed after the commit.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        a * b
    }
}

fn main() {}
