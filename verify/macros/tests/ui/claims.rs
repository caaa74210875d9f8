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

// Every way out after the `cas` releases the claim by the same commit: a section ends with one
// instruction.

// The claim would remain in memory.
atomseq::sequence! {
    pub unsafe fn return_while_claimed(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        if word == 0 { return 3 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

// Another commit would be a second last instruction.
atomseq::sequence! {
    pub unsafe fn return_by_another_commit(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        if word == 0 { commit(lock, 4); return 3 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

// Nothing is claimed yet.
atomseq::sequence! {
    pub unsafe fn return_by_commit_before_cas(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        if word == 0 { commit(lock, 0); return 3 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

// A restarted sequence has one commit.
atomseq::sequence! {
    pub unsafe fn return_by_commit_without_cas(slot: Slot, lock: Word, word: Word) -> Word {
        if word == 0 { commit(lock, 0); return 3 }
        commit(slot + 8, 0);
        0
    }
}

// An abort block says what an interrupted attempt returns. It comes first, holds one `return` of
// constants and parameters, and belongs to a sequence with a `cas`.

// Nothing is computed: no step is left to run.
atomseq::sequence! {
    pub unsafe fn abort_computes(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return word + 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

// Of an interrupted attempt only the parameters are known.
atomseq::sequence! {
    pub unsafe fn abort_not_first(slot: Slot, lock: Word, word: Word) -> Word {
        let old = load(lock);
        'abort: { return old }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

// Recovery is Rust code of the caller, outside the section.
atomseq::sequence! {
    pub unsafe fn abort_stores(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { store(word, 1); return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

// Without a `cas` an interruption restarts the sequence, so nothing would return this.
atomseq::sequence! {
    pub unsafe fn abort_without_cas(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        commit(slot + 8, word);
        lock
    }
}

// With a `cas` the caller must learn that its claim may still be in memory.
atomseq::sequence! {
    pub unsafe fn cas_without_abort(slot: Slot, lock: Word, word: Word) -> Word {
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

fn main() {}
