//! Which of the two happened before an interruption, nobody could tell.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        let other = cas(word, 0, 1);
        if other != 0 { commit(lock, 0); return 3 }
        commit(lock, 0);
        0
    }
}

fn main() {}
