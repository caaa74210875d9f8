//! Nor under another constant's name.

const FIRST: usize = 16;
const SECOND: usize = 16;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare(slot + FIRST, a);
        commit(slot + SECOND, b);
    }
}

fn main() {}
