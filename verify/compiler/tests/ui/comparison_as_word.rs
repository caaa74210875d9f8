//! A comparison is not a word.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let less = a < b;
        commit(slot + 8, less);
    }
}

fn main() {}
