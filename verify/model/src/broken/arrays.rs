//! Wrong rings and stacks.

use atomseq::percpu::Area;

use super::Broken;
use crate::execution::Fault;
use crate::layout::CALLERS;
use crate::structures::{Ring, Stack};

const HEAD: usize = Area::FIRST_WORD;
const TAIL: usize = Area::FIRST_WORD + 8;
const MASK: usize = Area::FIRST_WORD + 16;
const CAPACITY: usize = Area::FIRST_WORD + 24;
const BUFFER: usize = Area::BULK;

mod one_too_many {
    use super::{BUFFER, CAPACITY, HEAD, MASK, TAIL};

    atomseq::sequence! {
        /// Tests whether the ring is more than full.
        pub(super) unsafe fn push_word(slot: Slot, from: Word) -> bool {
            let tail = load(slot + TAIL);
            if tail - load(slot + HEAD) > load(slot + CAPACITY) { return false }
            let place = slot + ((tail & load(slot + MASK)) << 3);
            prepare(place + BUFFER, load(from));
            commit(slot + TAIL, tail + 1);
            true
        }
    }
}

mod delivered_before {
    use super::{BUFFER, HEAD, MASK, TAIL};

    atomseq::sequence! {
        /// Takes a word in the caller's buffer, which was empty, as proof that the word has been
        /// popped.
        pub(super) unsafe fn pop_word(slot: Slot, to: Word) -> bool {
            let head = load(slot + HEAD);
            if head == load(slot + TAIL) { return false }
            let alias = to + (head - head);
            if load(alias) != 0 { return true }
            let place = slot + ((head & load(slot + MASK)) << 3);
            prepare(to, load(place + BUFFER));
            commit(slot + HEAD, head + 1);
            true
        }
    }
}

mod past_the_end {
    use super::{BUFFER, HEAD, MASK, TAIL};

    atomseq::sequence! {
        /// Continues copying where the buffer ends.
        pub(super) unsafe fn pop_batch(slot: Slot, to: Word, count: Word, words: Word) -> Word {
            let head = load(slot + HEAD);
            let there = load(slot + TAIL) - head;
            let index = head & load(slot + MASK);
            let taken = min(there, count);
            let from = slot + ((index * words) << 3) + BUFFER;
            prepare_copy(to, from, taken * words);
            commit(slot + HEAD, head + taken);
            taken
        }
    }
}

pub fn rings() -> Vec<Broken> {
    let ring = || Ring {
        cpus: 1,
        capacity: 2,
        words: 1,
        history: 5,
    };
    vec![
        Broken::new(
            "the oldest element is prepared over",
            ring(),
            &one_too_many::push_word::MODEL,
            |fault| matches!(fault, Fault::VisibleBeforeCommit { .. }),
        ),
        Broken::new(
            "a prepared word is read under another name",
            ring(),
            &delivered_before::pop_word::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. }),
        ),
        Broken::new(
            "a batch leaves the buffer",
            ring(),
            &past_the_end::pop_batch::MODEL,
            |fault| matches!(fault, Fault::Outside(_)),
        ),
    ]
}

const PUSHED: usize = Area::FIRST_WORD;
const POPPED: usize = Area::FIRST_WORD + 8;
const ARRAY: usize = Area::BULK;

mod half {
    use super::{ARRAY, POPPED, PUSHED};

    atomseq::sequence! {
        /// Prepares half of the word that it makes visible.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let pushed = load(slot + PUSHED);
            let height = pushed - load(slot + POPPED);
            if height == capacity { return false }
            prepare32(slot + height + ARRAY, value);
            commit(slot + PUSHED, pushed + 8);
            true
        }
    }
}

mod taken_for_done {
    use super::{ARRAY, POPPED, PUSHED};

    atomseq::sequence! {
        /// Reads the word it is about to prepare, by an offset computed a second time.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let pushed = load(slot + PUSHED);
            let height = pushed - load(slot + POPPED);
            if height == capacity { return false }
            let alias = pushed - load(slot + POPPED);
            if load(slot + alias + ARRAY) == value { return true }
            prepare(slot + height + ARRAY, value);
            commit(slot + PUSHED, pushed + 8);
            true
        }
    }
}

mod on_the_top {
    use super::{ARRAY, POPPED, PUSHED};

    atomseq::sequence! {
        /// Prepares the top element, if there is one, instead of the word above.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let pushed = load(slot + PUSHED);
            let height = pushed - load(slot + POPPED);
            if height == capacity { return false }
            let place = min(height - 8, height);
            prepare(slot + place + ARRAY, value);
            commit(slot + PUSHED, pushed + 8);
            true
        }
    }
}

mod top_first {
    use super::{ARRAY, POPPED, PUSHED};

    atomseq::sequence! {
        /// Moves the top before the word under it is stored.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let pushed = load(slot + PUSHED);
            let height = pushed - load(slot + POPPED);
            if height == capacity { return false }
            prepare(slot + (value - value) + PUSHED, pushed + 8);
            commit(slot + height + ARRAY, value);
            true
        }
    }
}

mod whole_batch {
    use super::{ARRAY, POPPED, PUSHED};

    atomseq::sequence! {
        /// Copies all words given, not only those that there is room for.
        pub(super) unsafe fn push_batch(slot: Slot, capacity: Word, from: Word, count: Word) -> Word {
            let pushed = load(slot + PUSHED);
            let height = pushed - load(slot + POPPED);
            let taken = min((capacity - height) >> 3, count);
            prepare_copy(slot + height + ARRAY, from, count);
            commit(slot + PUSHED, pushed + (taken << 3));
            taken
        }
    }
}

mod wrong_end {
    use super::{ARRAY, POPPED, PUSHED};

    atomseq::sequence! {
        /// Takes from the bottom, and returns the number for the top.
        pub(super) unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
            let popped = load(slot + POPPED);
            let height = load(slot + PUSHED) - popped;
            let taken = min(height >> 3, count);
            prepare_copy(to, slot + (height - height) + ARRAY, taken);
            commit(slot + POPPED, popped + (taken << 3));
            taken
        }
    }
}

mod one_word_more {
    use super::{ARRAY, POPPED, PUSHED};

    atomseq::sequence! {
        /// Copies a word more than it takes, and more than the caller has room for.
        pub(super) unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
            let popped = load(slot + POPPED);
            let height = load(slot + PUSHED) - popped;
            let taken = min(height >> 3, count);
            prepare_copy(to, slot + (height - (taken << 3)) + ARRAY, taken + 1);
            commit(slot + POPPED, popped + (taken << 3));
            taken
        }
    }
}

pub fn stacks() -> Vec<Broken> {
    let stack = || Stack {
        cpus: 1,
        capacity: 3,
        history: 4,
    };
    vec![
        Broken::new(
            "half of the word is prepared",
            stack(),
            &half::push::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. }),
        ),
        Broken::new(
            "a word is loaded before it is prepared",
            stack(),
            &taken_for_done::push::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. }),
        ),
        Broken::new(
            "the top element is prepared over",
            stack(),
            &on_the_top::push::MODEL,
            |fault| matches!(fault, Fault::VisibleBeforeCommit { .. }),
        ),
        Broken::new(
            "two visible words change, one after the other",
            stack(),
            &top_first::push::MODEL,
            |fault| matches!(fault, Fault::VisibleBeforeCommit { .. }),
        ),
        Broken::new(
            "the whole batch is copied, room or not",
            stack(),
            &whole_batch::push_batch::MODEL,
            |fault| matches!(fault, Fault::Outside(_)),
        ),
        Broken::new(
            "the caller's buffer overflows",
            stack(),
            &one_word_more::pop_batch::MODEL,
            |fault| matches!(fault, Fault::Outside(span) if span.address >= CALLERS),
        ),
        Broken::new(
            "a batch is taken from the wrong end",
            stack(),
            &wrong_end::pop_batch::MODEL,
            |fault| matches!(fault, Fault::WrongAnswer { .. }),
        ),
    ]
}
