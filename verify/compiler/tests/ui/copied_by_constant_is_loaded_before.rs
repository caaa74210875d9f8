//! What a copy prepares counts, if only rustc knows how much that is.

const LENGTH: usize = 64;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word) -> Word {
        let old = load(slot + 632);
        prepare_copy(slot + 128, a, LENGTH);
        commit(slot + 8, old);
        old
    }
}

fn main() {}
