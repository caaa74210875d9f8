//! A named constant is at most 65,535.

const LARGE: usize = 65_536;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, a + LARGE);
    }
}

fn main() {}
