//! An `if` has no `else`.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Word {
        if a == b { return 0 } else { return 1 }
        commit(slot + 8, a);
        a
    }
}

fn main() {}
