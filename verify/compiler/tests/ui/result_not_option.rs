//! The signature promises an option.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Option<Word> {
        if a == 0 { return 0 }
        commit(slot + 8, a);
        Some(a)
    }
}

fn main() {}
