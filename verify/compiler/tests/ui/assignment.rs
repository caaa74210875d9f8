//! Words are assigned once.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let next = a;
        next = b;
        commit(slot + 8, next);
    }
}

fn main() {}
