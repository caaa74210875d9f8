//! An abort block says what an interrupted attempt returns. It comes first, holds one `return` of
//! constants and parameters, and belongs to a sequence with a `cas`.

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
