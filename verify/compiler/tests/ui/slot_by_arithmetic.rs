//! Nor an address made from it.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let cell = slot + (a << 3);
        let tagged = cell | 1;
        commit(slot + 8, tagged);
    }
}

fn main() {}
