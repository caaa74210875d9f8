//! A literal has 64 bits.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, 0x1_0000_0000_0000_0000);
    }
}

fn main() {}
