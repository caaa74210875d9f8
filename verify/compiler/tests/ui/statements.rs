//! A sequence calls nothing but the language's own operations, each with its number of arguments.

// A commit takes an address and a word.
atomseq::sequence! {
    pub unsafe fn argument_count(slot: Slot, a: Word, b: Word) {
        commit(slot + 8);
    }
}

// A load takes an address.
atomseq::sequence! {
    pub unsafe fn argument_count_load(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, load(a, b));
    }
}

// A function by a path.
atomseq::sequence! {
    pub unsafe fn call_of_a_path(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, core::cmp::min(a, b));
    }
}

// A function by its name: the message lists the operations.
atomseq::sequence! {
    pub unsafe fn unknown_call(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, popcount(a));
    }
}

// A method.
atomseq::sequence! {
    pub unsafe fn method_call(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a.count_ones());
    }
}

// A macro.
atomseq::sequence! {
    pub unsafe fn macro_call(slot: Slot, a: Word, b: Word) {
        dbg!(a);
        commit(slot + 8, a);
    }
}

// A word that is loaded is used, and a statement has an effect.

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
