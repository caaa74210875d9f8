//! The signature promises a word.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
    }
}

fn main() {}
