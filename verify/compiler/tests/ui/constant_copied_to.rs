//! A constant is not an address in a copy either.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        prepare_copy(4096, a, 1);
        commit(slot + 8, a);
    }
}

fn main() {}
