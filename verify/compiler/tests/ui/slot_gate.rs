//! A sequence leaves the gate of its slot alone, and the memory before the slot and behind it.

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
