//! No early return after the commit.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a);
        if a == b { return }
    }
}

fn main() {}
