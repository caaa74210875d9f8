//! The slot's address is of no use elsewhere.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, slot);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

fn main() {}
