//! After the slot comes another CPU's.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, b: Word) {
        let other = load(slot + 128);
        commit(slot + 8, other);
    }
}

fn main() {}
