//! Attributes that mean nothing here.

atomseq::sequence! {
    #[target_feature(enable = "avx")]
    pub unsafe fn refused(slot: Slot, a: Word) {
        commit(slot + 8, a);
    }
}

fn main() {}
