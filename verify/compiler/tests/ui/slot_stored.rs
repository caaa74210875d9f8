//! A slot is of no use in memory.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare(a, slot);
        commit(slot + 8, b);
    }
}

fn main() {}
