//! An attribute on a condition would not be heeded.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) {
        if #[cfg(any())] (a == 0) { return }
        commit(slot + 8, a);
    }
}

fn main() {}
