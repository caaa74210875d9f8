//! An `if` is no word.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let larger = if a < b { b } else { a };
        commit(slot + 8, larger);
    }
}

fn main() {}
