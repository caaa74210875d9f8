//! A parameter is a slot or a word.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: usize) {
        commit(slot + 8, a);
    }
}

fn main() {}
