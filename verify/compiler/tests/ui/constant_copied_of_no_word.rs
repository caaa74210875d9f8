//! A copy of no word prepares nothing.

const NONE: usize = 0;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) {
        prepare_copy(slot + 16, a, NONE);
        let old = load(slot + 16);
        prepare(slot + 16, a);
        commit(slot + 8, old);
    }
}

fn main() {}
