//! By any constant.

const FIRST: usize = 16;
const SECOND: usize = 16;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let old = load(a + FIRST);
        prepare(a + SECOND, b);
        commit(slot + 8, old);
    }
}

fn main() {}
