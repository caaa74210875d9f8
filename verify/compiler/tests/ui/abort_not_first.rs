//! Nothing is known of an interrupted attempt but its parameters.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        let old = load(lock);
        'abort: { return old }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

fn main() {}
