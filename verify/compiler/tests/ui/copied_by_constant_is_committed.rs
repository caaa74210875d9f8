//! What a copy prepares counts, if only rustc knows how much that is.

const LENGTH: usize = 4;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) {
        prepare_copy(slot + 16, a, LENGTH);
        commit(slot + 40, 7);
    }
}

fn main() {}
