//! Every sequence is told its error, not only the first.

atomseq::sequence! {
    pub unsafe fn first(slot: Slot, a: Word) {
        prepare(slot + 8, a);
    }

    pub unsafe fn second(slot: Slot, a: Word) {
        commit(slot + 8, b);
    }
}

fn main() {}
