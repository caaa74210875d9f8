//! It may have failed.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        store(word, found);
        commit(lock, 0);
        0
    }
}

fn main() {}
