//! A restartable sequence ends in one visible store; the errors of all sequences are reported.

// No store becomes visible.
atomseq::sequence! {
    pub unsafe fn no_commit(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
    }
}

// The same without a slot.
atomseq::sequence! {
    pub unsafe fn only_prepared(a: Word) {
        prepare(a, 1);
    }
}

// It only reads, which needs no sequence.
atomseq::sequence! {
    pub fn only_read(slot: Slot) -> Word {
        load(slot + 8)
    }
}

// Two sequences in one macro: an error for each.
atomseq::sequence! {
    pub unsafe fn first(slot: Slot, a: Word) {
        prepare(slot + 8, a);
    }

    pub unsafe fn second(slot: Slot, a: Word) {
        commit(slot + 8, b);
    }
}

// The commit is the last step: a restart between it and a later step would repeat it, and an
// interruption there would lose the later step.

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

// A visible store cannot be repeated: it stands neither beside `prepare` and `commit` nor beside
// `cpu()`.

// Before a commit.
atomseq::sequence! {
    pub unsafe fn visible_store(slot: Slot, a: Word, b: Word) {
        store(slot + 8, a);
        commit(slot + 16, b);
    }
}

// Beside a `prepare`.
atomseq::sequence! {
    pub unsafe fn visible_store_and_prepare(a: Word, b: Word) {
        prepare(a, 1);
        store(b, 2);
    }
}

// Beside a copy, which is a loop.
atomseq::sequence! {
    pub unsafe fn visible_store_and_copy(slot: Slot, from: Word) {
        prepare_copy(slot + 64, from, 4);
        store(slot + 8, 1);
    }
}

// Rolling forward does not keep the thread on its CPU.
atomseq::sequence! {
    pub unsafe fn visible_store_and_cpu(a: Word, home: Word) -> bool {
        if cpu() != home { return false }
        store(a, 1);
        true
    }
}

fn main() {}
