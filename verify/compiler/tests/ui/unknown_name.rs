//! A name is a parameter, a `let` above, or a constant.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, amuont);
    }
}

fn main() {}
