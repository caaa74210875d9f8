//! Every way out after the `cas` releases the claim by the same commit: a section ends with one
//! instruction.

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

fn main() {}
