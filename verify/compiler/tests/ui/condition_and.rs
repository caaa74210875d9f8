//! A condition is one comparison, not two.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        if a == 0 && b == 0 { return }
        commit(slot + 8, a);
    }
}

fn main() {}
