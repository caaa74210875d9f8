//! A copy of no word prepares nothing.

atomseq::sequence! {
    pub unsafe fn refused(slot: Slot, a: Word, words: Word) {
        prepare_copy(slot + 16, a, min(words, 4));
        let old = load(slot + 16);
        prepare(slot + 16, words);
        commit(slot + 8, old);
    }
}

fn main() {}
