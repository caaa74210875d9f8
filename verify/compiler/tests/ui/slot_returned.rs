//! A slot is of no use to the caller.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        slot
    }
}

fn main() {}
