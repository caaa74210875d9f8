//! The signature promises two words.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> (Word, Word) {
        commit(slot + 8, a);
        a
    }
}

fn main() {}
