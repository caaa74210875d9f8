//! A condition depends on a word.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        if 1 == 2 { return }
        commit(slot + 8, a);
    }
}

fn main() {}
