//! The address of a slot is of no use after the attempt, on whatever CPU the caller is then.

// Stored.
atomseq::sequence! {
    pub unsafe fn slot_stored(slot: Slot, a: Word, b: Word) {
        prepare(a, slot);
        commit(slot + 8, b);
    }
}

// Committed.
atomseq::sequence! {
    pub unsafe fn slot_committed(slot: Slot, a: Word, b: Word) {
        let own = slot;
        commit(slot + 8, own);
    }
}

// Committed after arithmetic.
atomseq::sequence! {
    pub unsafe fn slot_by_arithmetic(slot: Slot, a: Word, b: Word) {
        let cell = slot + (a << 3);
        let tagged = cell | 1;
        commit(slot + 8, tagged);
    }
}

// Stored by a `cas`.
atomseq::sequence! {
    pub unsafe fn cas_of_slot(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, slot);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

// Returned.
atomseq::sequence! {
    pub unsafe fn slot_returned(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        slot
    }
}

// Returned early.
atomseq::sequence! {
    pub unsafe fn slot_returned_early(slot: Slot, a: Word, b: Word) -> Option<Word> {
        if a == 0 {
            return Some(slot + 8)
        }
        commit(slot + 8, a);
        None
    }
}

// A second slot: a sequence tests one gate.
atomseq::sequence! {
    pub unsafe fn second_slot(slot: Slot, other: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

// What only the kernel can restart or end needs a `Slot` or a decision by `cpu()`.

// The CPU's number decides nothing.
atomseq::sequence! {
    pub unsafe fn cpu_only_stored(a: Word) {
        commit(a, cpu());
    }
}

// A copy is a loop, and a clone has no backward branch.
atomseq::sequence! {
    pub unsafe fn copy_without_cpu(to: Word, from: Word, flag: Word) {
        prepare_copy(to, from, 4);
        commit(flag, 1);
    }
}

// Only the kernel reports the interruption.
atomseq::sequence! {
    pub unsafe fn cas_without_cpu(lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(lock, 0, 1);
        if found != 0 { return 2 }
        store(word, 1);
        commit(lock, 0);
        0
    }
}

fn main() {}
