//! By any name.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let cell = a + (b << 3);
        let same = a + (b << 3);
        let old = load(cell);
        prepare(same + 0, b);
        commit(slot + 8, old);
    }
}

fn main() {}
