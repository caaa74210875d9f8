//! What a copy prepares at most counts.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, words: Word) -> Word {
        let old = load(slot + 632);
        prepare_copy(slot + 128, a, min(words, 64));
        commit(slot + 8, old);
        old
    }
}

fn main() {}
