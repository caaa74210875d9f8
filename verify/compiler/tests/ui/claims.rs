//! A `cas` is the only claim: once, tested right after it, before every store, ended by a commit.

// It may have failed.
atomseq::sequence! {
    pub unsafe fn cas_not_tested(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        store(word, found);
        commit(lock, 0);
        0
    }
}

// The early return would be taken with the claim held.
atomseq::sequence! {
    pub unsafe fn cas_tested_for_success(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found == 0 { return 2 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

// After an interruption the caller could not tell which of the two happened.
atomseq::sequence! {
    pub unsafe fn cas_twice(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        let other = cas(word, 0, 1);
        if other != 0 { commit(lock, 0); return 3 }
        commit(lock, 0);
        0
    }
}

// A section has an end, which releases the claim.
atomseq::sequence! {
    pub unsafe fn cas_without_commit(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        store(word, 1);
        0
    }
}

// Nothing is prepared for a restart where nothing is restarted.
atomseq::sequence! {
    pub unsafe fn prepare_beside_cas(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        prepare(word, 1);
        commit(lock, 0);
        0
    }
}

// Only what has been claimed is stored to.
atomseq::sequence! {
    pub unsafe fn store_before_cas(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        store(word, 1);
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

fn main() {}
