//! Nor in an early return.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Option<Word> {
        if a == 0 {
            return Some(slot + 8)
        }
        commit(slot + 8, a);
        None
    }
}

fn main() {}
