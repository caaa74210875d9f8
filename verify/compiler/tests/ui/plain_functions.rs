//! A plain `fn` reaches whole words of its slot alone, so that its callers need not vouch for
//! anything.

// No slot.
atomseq::sequence! {
    pub fn without_slot(a: Word, b: Word) {
        commit(a, b);
    }
}

// No form for its CPU: a slot is any address in `rolling`.
atomseq::sequence! {
    pub fn without_commit(slot: Slot, a: Word) {
        store(slot + 8, a);
    }
}

// An address from a parameter.
atomseq::sequence! {
    pub fn parameter(slot: Slot, a: Word) {
        let word = load(a);
        commit(slot + 8, word);
    }
}

// An address from a word of the slot, which any other plain `fn` may have stored.
atomseq::sequence! {
    pub fn loaded(slot: Slot, a: Word) -> Word {
        let first = load(slot + 8);
        let next = load(first);
        commit(slot + 8, next);
        first
    }
}

// A store to such an address.
atomseq::sequence! {
    pub fn prepared(slot: Slot, a: Word) {
        prepare(load(slot + 8), a);
        commit(slot + 8, a);
    }
}

// An offset that the caller chooses.
atomseq::sequence! {
    pub fn computed(slot: Slot, a: Word) {
        commit(slot + (a << 3), a);
    }
}

// Even if it is bounded.
atomseq::sequence! {
    pub fn bounded(slot: Slot, a: Word) {
        commit(slot + 8 + ((a & 7) << 3), a);
    }
}

// The difference of two addresses.
atomseq::sequence! {
    pub fn difference(slot: Slot, a: Word) {
        let zero = slot - slot;
        commit(slot + 8, load(zero + 16));
    }
}

// A `cas` elsewhere.
atomseq::sequence! {
    pub fn claimed(slot: Slot, lock: Word) -> bool {
        'abort: { return false }
        let found = cas(lock, 0, 1);
        if found != 0 { return false }
        commit(slot + 8, 0);
        true
    }
}

// A commit elsewhere.
atomseq::sequence! {
    pub fn committed(slot: Slot, a: Word) {
        let word = load(slot + 8);
        commit(a, word);
    }
}

// Half a word.
atomseq::sequence! {
    pub fn half_loaded(slot: Slot) {
        let half = load32(slot + 8);
        commit(slot + 16, half);
    }
}

// A half that is stored.
atomseq::sequence! {
    pub fn half_committed(slot: Slot, a: Word) {
        commit32(slot + 8, a);
    }
}

// A copy.
atomseq::sequence! {
    pub fn copied(slot: Slot, a: Word) {
        prepare_copy(slot + 16, slot + 32, 2);
        commit(slot + 8, a);
    }
}

// Bulk memory, which an area need not have.
atomseq::sequence! {
    pub fn bulk(slot: Slot, a: Word) {
        commit(slot + atomseq::percpu::Area::BULK, a);
    }
}

// A word behind those of the slot: refused in every sequence.
atomseq::sequence! {
    pub fn behind(slot: Slot, a: Word) {
        commit(slot + 128, a);
    }
}

// The gate.
atomseq::sequence! {
    pub fn gate(slot: Slot, a: Word) {
        commit(slot, a);
    }
}

// Its address.
atomseq::sequence! {
    pub fn returned(slot: Slot, a: Word) -> Word {
        commit(slot + 8, a);
        slot + 8
    }
}

fn main() {}
