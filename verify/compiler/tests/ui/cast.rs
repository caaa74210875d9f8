//! Nothing to cast.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a as u32);
    }
}

fn main() {}
