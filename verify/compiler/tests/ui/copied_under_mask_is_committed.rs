//! What a copy prepares at most counts, whatever else goes into its length.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, words: Word) {
        prepare_copy(slot + 16, a, min(load(a) & 3, words));
        commit(slot + 32, 7);
    }
}

fn main() {}
