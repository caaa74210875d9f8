//! No loop.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        loop {
            commit(slot + 8, a);
        }
    }
}

fn main() {}
