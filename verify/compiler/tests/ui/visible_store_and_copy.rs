//! A copy is a loop, and a rollforward is bounded by the number of instructions.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, from: Word) {
        prepare_copy(slot + 64, from, 4);
        store(slot + 8, 1);
    }
}

fn main() {}
