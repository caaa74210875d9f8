//! What may be forbidden stands around a sequence: the code that is made of it allows lints.

atomseq::sequence! {
    #[forbid(unused)]
    pub unsafe fn refused(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
