//! An offset that is another one where words have 32 bits.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + ((1 << 16) * (1 << 16) >> 28), a);
    }
}

fn main() {}
