//! A sequence leaves the gate of its slot alone, and the memory before the slot.

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

fn main() {}
