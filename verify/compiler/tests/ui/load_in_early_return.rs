//! A load in an early return would happen whether it is taken or not.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Word {
        if a != 0 { return load(a) }
        commit(slot + 8, b);
        b
    }
}

fn main() {}
