//! A literal is a word.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, 1u32);
    }
}

fn main() {}
