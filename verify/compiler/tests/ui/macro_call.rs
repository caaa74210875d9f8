//! No macros.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        dbg!(a);
        commit(slot + 8, a);
    }
}

fn main() {}
