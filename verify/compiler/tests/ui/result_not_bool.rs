//! The signature promises `true` or `false`.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> bool {
        commit(slot + 8, a);
        a
    }
}

fn main() {}
