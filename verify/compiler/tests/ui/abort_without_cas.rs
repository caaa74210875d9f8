//! What is restarted never ends so.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        commit(slot + 8, word);
        lock
    }
}

fn main() {}
