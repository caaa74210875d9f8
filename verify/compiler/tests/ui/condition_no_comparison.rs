//! A condition is one comparison.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        if a & 1 { return }
        commit(slot + 8, a);
    }
}

fn main() {}
