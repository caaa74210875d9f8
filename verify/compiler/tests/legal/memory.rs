//! Every access to memory.

use atomseq::percpu::Area;

const VALUE: usize = 8;
const WORDS: usize = 4;
const NEXT: usize = 56;

atomseq::sequence! {
    /// Words and halves, read and prepared.
    pub unsafe fn moves(slot: Slot, from: Word, to: Word, words: Word) -> Word {
        let word = load(from);
        let half = load32(from + 4);
        let ordered = load_acquire(from + 8);
        prepare(to, word);
        prepare32(to + 8, half);
        prepare32(to + 12, half + 1);
        let again = load(to + 8);
        prepare_copy(to + 16, from, min(words, 4));
        commit(slot + VALUE, again);
        ordered
    }

    /// A half is committed.
    pub unsafe fn half(slot: Slot, value: Word) {
        commit32(slot + VALUE + 4, value);
    }

    /// Readers outside the gate may follow the word.
    pub unsafe fn publish(slot: Slot, value: Word) {
        commit_release(slot + VALUE, value)
    }

    /// Slots are copied from and to, and the bulk memory behind them.
    pub unsafe fn copies(slot: Slot, words: Word) {
        prepare_copy(slot + 88, slot + 48, 5);
        prepare(slot + Area::BULK + 8, load(slot + Area::BULK + 896));
        prepare_copy(slot + 24, slot + 16, words & 0);
        commit(slot + 8, words);
    }

    /// What only rustc knows of lengths: between what is loaded and what is committed, a copy is
    /// that long; and what it prepared may be loaded and prepared again.
    pub unsafe fn lengths(slot: Slot, from: Word) -> Word {
        let before = load(slot + 16);
        prepare_copy(slot + 24, from, WORDS);
        prepare_copy(slot + NEXT, slot + 24, WORDS);
        let last = load(slot + NEXT + 24);
        prepare(slot + 80, last + 1);
        commit(slot + 88, before);
        last
    }

    /// The same of the most that is copied; of another length, one word counts.
    pub unsafe fn bounds(slot: Slot, from: Word, words: Word) -> Word {
        let before = load(slot + 16);
        prepare_copy(slot + 24, from, min(words, WORDS));
        prepare_copy(slot + 56, slot + 24, words & 3);
        let after = load(slot + 80);
        prepare_copy(slot + 88, from, words + 2);
        commit(slot + 96, before);
        after
    }
}

#[test]
fn memory_compiles() {
    let _ = (moves::MODEL, half::MODEL, publish::MODEL, copies::MODEL);
    let _ = (lengths::MODEL, bounds::MODEL);
}
