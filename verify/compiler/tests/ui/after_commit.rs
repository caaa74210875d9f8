//! The commit is the last step: a restart between it and a later step would repeat it, and an
//! interruption there would lose the later step.

// Two commits.
atomseq::sequence! {
    pub unsafe fn two_commits(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        commit(slot + 16, b);
    }
}

// A store.
atomseq::sequence! {
    pub unsafe fn store_after_commit(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        prepare(slot + 16, b);
    }
}

// A copy.
atomseq::sequence! {
    pub unsafe fn copy_after_commit(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        prepare_copy(b, slot + 16, 2);
    }
}

// A load.
atomseq::sequence! {
    pub unsafe fn load_after_commit(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        let next = load(slot + 16);
        next
    }
}

// A load whose word is not even used.
atomseq::sequence! {
    pub unsafe fn unused_load_after_commit(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        let next = load(slot + 16);
    }
}

// A computation in the result.
atomseq::sequence! {
    pub unsafe fn computed_after_commit(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        a * b
    }
}

// An early return.
atomseq::sequence! {
    pub unsafe fn return_after_commit(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        if a == b { return }
    }
}

fn main() {}
