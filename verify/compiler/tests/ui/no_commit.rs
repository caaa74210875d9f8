//! A restartable sequence ends in one visible store.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare(slot + 8, a);
    }
}

fn main() {}
