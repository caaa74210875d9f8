//! Each operation takes its arguments.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8);
    }
}

fn main() {}
