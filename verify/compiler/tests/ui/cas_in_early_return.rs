//! It would be made whether the way out is taken or not.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        if word == 0 { return cas(lock, 0, 1) }
        commit(lock, 0);
        0
    }
}

fn main() {}
