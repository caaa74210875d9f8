//! No `mut`.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let mut next = a;
        commit(slot + 8, next);
    }
}

fn main() {}
