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

fn main() {}
