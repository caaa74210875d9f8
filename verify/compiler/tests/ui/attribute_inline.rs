//! Attributes that mean nothing here.

atomseq::sequence! {
    #[inline(never)]
    pub unsafe fn refused(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
