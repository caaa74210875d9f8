//! No continue.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        if a == b { continue }
        commit(slot + 8, a);
    }
}

fn main() {}
