//! An attribute inside would not be heeded.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        #[cfg(debug_assertions)]
        if a == 0 { return }
        commit(slot + 8, b);
    }
}

fn main() {}
