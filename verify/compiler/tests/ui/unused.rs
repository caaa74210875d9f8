//! A word that is loaded is used, and a statement has an effect.

// A `let` that nothing reads.
atomseq::sequence! {
    pub unsafe fn word_never_used(slot: Slot, a: Word, b: Word) {
        let next = load(a);
        commit(slot + 8, b);
    }
}

// A load as a statement.
atomseq::sequence! {
    pub unsafe fn load_as_statement(slot: Slot, a: Word, b: Word) {
        load(a);
        commit(slot + 8, b);
    }
}

// A sum as a statement.
atomseq::sequence! {
    pub unsafe fn statement_without_effect(slot: Slot, a: Word, b: Word) {
        a + b;
        commit(slot + 8, b);
    }
}

// A `cas` whose outcome is dropped.
atomseq::sequence! {
    pub unsafe fn cas_never_used(slot: Slot, lock: Word, word: Word) -> Word {
        'abort: { return 1 }
        cas(lock, 0, 1);
        commit(lock, 0);
        0
    }
}

fn main() {}
