//! No generics.

atomseq::sequence! {
    pub unsafe fn refused<T>(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
