//! A load that nobody uses.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        load(a);
        commit(slot + 8, b);
    }
}

fn main() {}
