//! A load takes an address.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        commit(slot + 8, load(a, b));
    }
}

fn main() {}
