//! No for.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        for i in 0..a {
            prepare(i, b);
        }
        commit(slot + 8, a);
    }
}

fn main() {}
