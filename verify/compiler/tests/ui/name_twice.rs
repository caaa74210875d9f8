//! Each word has a name of its own.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) {
        let b = a + 1;
        let b = b + 1;
        commit(slot + 8, b);
    }
}

fn main() {}
