//! One commit: a restart between two would repeat the first.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        commit(slot + 16, b);
    }
}

fn main() {}
