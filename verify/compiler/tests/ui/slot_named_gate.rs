//! Named offsets are held to the same.

const GATE: usize = 0;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + GATE, a);
    }
}

fn main() {}
