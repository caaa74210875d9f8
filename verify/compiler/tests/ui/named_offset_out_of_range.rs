//! A named offset fits one instruction everywhere.

const FAR: usize = 40_000;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let next = load(a + FAR);
        commit(slot + 8, next);
    }
}

fn main() {}
