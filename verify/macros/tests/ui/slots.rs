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

// A sequence leaves the gate of its slot alone, and the memory before the slot and behind it.

// The gate.
atomseq::sequence! {
    pub unsafe fn slot_gate(slot: Slot, a: Word, b: Word) {
        commit(slot, a);
    }
}

// Its other half.
atomseq::sequence! {
    pub unsafe fn slot_gate_half(slot: Slot, a: Word, b: Word) {
        commit32(slot + 4, a);
    }
}

// Memory of another CPU.
atomseq::sequence! {
    pub unsafe fn slot_before(slot: Slot, a: Word, b: Word) {
        let other = load(slot - 8);
        commit(slot + 8, other);
    }
}

// A copy over the gate.
atomseq::sequence! {
    pub unsafe fn slot_copied_over(slot: Slot, a: Word, b: Word) {
        prepare_copy(slot, a, 2);
        commit(slot + 24, b);
    }
}

// A `cas` on the gate.
atomseq::sequence! {
    pub unsafe fn cas_on_gate(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        let found = cas(slot, 0, 1);
        if found != 0 { return 2 }
        commit(lock, 0);
        0
    }
}

// The gate of the next CPU, in an area without bulk memory.
atomseq::sequence! {
    pub unsafe fn slot_behind(slot: Slot, a: Word, b: Word) {
        commit(slot + 128, a);
    }
}

// The same, half a word.
atomseq::sequence! {
    pub unsafe fn slot_behind_half(slot: Slot, a: Word, b: Word) {
        let other = load32(slot + 128);
        commit(slot + 8, other);
    }
}

// The sixteenth word of a copy.
atomseq::sequence! {
    pub unsafe fn slot_copied_behind(slot: Slot, a: Word, b: Word) {
        prepare_copy(slot + 16, a, 15);
        commit(slot + 8, b);
    }
}

// It may be the sixteenth.
atomseq::sequence! {
    pub unsafe fn slot_copied_from_behind(slot: Slot, a: Word, b: Word) {
        prepare_copy(a, slot + 8, min(b, 16));
        commit(slot + 8, b);
    }
}

fn main() {}
