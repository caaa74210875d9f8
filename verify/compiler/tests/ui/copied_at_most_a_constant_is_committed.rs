//! What a copy prepares at most counts, if only rustc knows how much that is.

const LENGTH: usize = 4;

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, words: Word) {
        let bounded = min(words, LENGTH);
        prepare_copy(slot + 16, a, bounded);
        commit(slot + 40, 7);
    }
}

fn main() {}
