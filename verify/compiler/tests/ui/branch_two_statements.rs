//! An `if` holds nothing but its `return`.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        if a == b {
            prepare(slot + 16, a);
            return
        }
        commit(slot + 8, a);
    }
}

fn main() {}
