//! An attribute on parentheses would not be heeded.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) {
        commit(slot + 8, #[cfg(any())] (a));
    }
}

fn main() {}
