//! No while.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        while a == b {
            prepare(a, b);
        }
        commit(slot + 8, a);
    }
}

fn main() {}
