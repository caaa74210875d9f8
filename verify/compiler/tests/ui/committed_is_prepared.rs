//! The committed word is prepared by nobody.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
        commit(slot + 8, b);
    }
}

fn main() {}
