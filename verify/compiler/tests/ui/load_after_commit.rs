//! Nothing is loaded after the commit.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) -> Word {
        commit(slot + 8, a);
        let next = load(slot + 16);
        next
    }
}

fn main() {}
