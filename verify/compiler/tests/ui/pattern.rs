//! `let` binds one name.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let (first, second) = a;
        commit(slot + 8, first);
    }
}

fn main() {}
