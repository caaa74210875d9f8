//! Nothing is prepared where nothing is repeated.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        prepare(word, 1);
        commit(lock, 0);
        0
    }
}

fn main() {}
