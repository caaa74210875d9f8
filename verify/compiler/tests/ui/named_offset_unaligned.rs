//! A named offset is a multiple of the access.

const ODD: usize = 12;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let next = load(a + ODD);
        commit(slot + 8, next);
    }
}

fn main() {}
