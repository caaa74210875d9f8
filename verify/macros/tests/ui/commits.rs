//! Commits, visible stores, prepared words. A restartable sequence ends in one visible store.

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

// A prepared word is not loaded before it is prepared: after a restart it holds what the
// interrupted attempt left there.

// The same word.
atomseq::sequence! {
    pub unsafe fn prepared_loaded_before(slot: Slot, a: Word, b: Word) {
        let old = load(a + 8);
        prepare(a + 8, b);
        commit(slot + 8, old);
    }
}

// A half of it.
atomseq::sequence! {
    pub unsafe fn prepared_loaded_half(slot: Slot, a: Word, b: Word) {
        let old = load32(a + 12);
        prepare(a + 8, b);
        commit(slot + 8, old);
    }
}

// The same sum, computed twice.
atomseq::sequence! {
    pub unsafe fn prepared_loaded_by_alias(slot: Slot, a: Word, b: Word) {
        let cell = a + (b << 3);
        let same = a + (b << 3);
        let old = load(cell);
        prepare(same + 0, b);
        commit(slot + 8, old);
    }
}

// A word that a copy prepares.
atomseq::sequence! {
    pub unsafe fn copied_to_loaded_before(slot: Slot, a: Word, b: Word) {
        let old = load(a + 16);
        prepare_copy(a, b, 3);
        commit(slot + 8, old);
    }
}

// A word that a copy of at most 64 words may prepare.
atomseq::sequence! {
    pub unsafe fn copied_at_most_is_loaded_before(slot: Slot, a: Word, b: Word, words: Word) -> Word {
        let old = load(b + 504);
        prepare_copy(b, a, min(words, 64));
        commit(slot + 8, old);
        old
    }
}

// A copy of perhaps no word does not prepare its first one.
atomseq::sequence! {
    pub unsafe fn perhaps_copied_to_loaded_before(slot: Slot, a: Word, words: Word) {
        prepare_copy(slot + 16, a, min(words, 4));
        let old = load(slot + 16);
        prepare(slot + 16, words);
        commit(slot + 8, old);
    }
}

// A copy reads a word that is prepared later.
atomseq::sequence! {
    pub unsafe fn copied_from_prepared(slot: Slot, a: Word, b: Word) {
        prepare_copy(b, a, 2);
        prepare(a + 8, b);
        commit(slot + 8, a);
    }
}

// A copy whose target overlaps its source cannot be repeated.
atomseq::sequence! {
    pub unsafe fn copy_onto_itself(slot: Slot, a: Word, b: Word) {
        prepare_copy(a, a + 8, 4);
        commit(slot + 8, b);
    }
}

// The committed word is not prepared as well: the first of the two stores would be visible early.

// The same word.
atomseq::sequence! {
    pub unsafe fn committed_is_prepared(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
        commit(slot + 8, b);
    }
}

// A half of a prepared word.
atomseq::sequence! {
    pub unsafe fn committed_half_is_prepared(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
        commit32(slot + 12, b);
    }
}

// A word of a copy.
atomseq::sequence! {
    pub unsafe fn committed_is_copied_to(slot: Slot, a: Word, b: Word) {
        prepare_copy(slot + 16, a, 4);
        commit(slot + 40, b);
    }
}

// A word that a copy of at most so many words may reach.
atomseq::sequence! {
    pub unsafe fn copied_under_mask_is_committed(slot: Slot, a: Word, words: Word) {
        prepare_copy(slot + 16, a, min(load(a) & 3, words));
        commit(slot + 32, 7);
    }
}

fn main() {}
