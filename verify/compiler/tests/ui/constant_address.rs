//! A constant is not an address.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(4096, a);
    }
}

fn main() {}
