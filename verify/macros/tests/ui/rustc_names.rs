//! What rustc's name resolution refuses.

// A constant that does not exist.
atomseq::sequence! {
    pub unsafe fn unknown_constant(slot: Slot, a: Word, b: Word) {
        commit(slot + AMOUNT, a);
    }
}

fn main() {}
