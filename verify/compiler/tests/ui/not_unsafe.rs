//! The caller vouches for the addresses.

atomseq::sequence! {
    pub fn refused(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
