//! Sequences that tests interrupt.

atomseq::sequence! {
    /// Adds one to each of three words; if the second is `stop`, to the first one only.
    pub unsafe fn add_to_three(words: Word, stop: Word) -> Word {
        let first = load(words);
        store(words, first + 1);
        let second = load(words + 8);
        if second == stop { return first }
        store(words + 8, second + 1);
        let third = load(words + 16);
        store(words + 16, third + 1);
        third
    }

    /// Adds what the second word holds to the first.
    pub unsafe fn add_second_to_first(words: Word) -> Word {
        let first = load(words);
        let second = load(words + 8);
        commit(words, first + second);
        first
    }
}
