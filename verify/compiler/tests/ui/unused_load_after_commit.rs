//! Nothing is loaded after the commit, used or not.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        let next = load(slot + 16);
    }
}

fn main() {}
