//! An attribute on a result would not be heeded.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) -> Option<(Word, Word)> {
        commit(slot + 8, a);
        Some(#[cfg(any())] (a, a))
    }
}

fn main() {}
