//! Half of it counts.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let old = load32(a + 12);
        prepare(a + 8, b);
        commit(slot + 8, old);
    }
}

fn main() {}
