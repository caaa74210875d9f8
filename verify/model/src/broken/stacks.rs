//! Wrong stacks.

use atomseq::percpu::Area;

use super::Broken;
use crate::checker::Fault;
use crate::layout::CALLERS;
use crate::structures::Stack;

const TOP: usize = Area::FIRST_WORD;
const ARRAY: usize = Area::BULK;

mod half {
    use super::{ARRAY, TOP};

    atomseq::sequence! {
        /// Prepares half of the word that it makes visible.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == capacity { return false }
            prepare32(slot + top + ARRAY, value);
            commit(slot + TOP, top + 8);
            true
        }
    }
}

mod taken_for_done {
    use super::{ARRAY, TOP};

    atomseq::sequence! {
        /// Reads the word it is about to prepare, by an offset loaded a second time.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == capacity { return false }
            let alias = load(slot + TOP);
            if load(slot + alias + ARRAY) == value { return true }
            prepare(slot + top + ARRAY, value);
            commit(slot + TOP, top + 8);
            true
        }
    }
}

mod on_the_top {
    use super::{ARRAY, TOP};

    atomseq::sequence! {
        /// Prepares the top element, where there is one, instead of the word above.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == capacity { return false }
            let place = min(top - 8, top);
            prepare(slot + place + ARRAY, value);
            commit(slot + TOP, top + 8);
            true
        }
    }
}

mod top_first {
    use super::{ARRAY, TOP};

    atomseq::sequence! {
        /// Moves the top before the word under it is there.
        pub(super) unsafe fn push(slot: Slot, capacity: Word, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == capacity { return false }
            prepare(slot + (value - value) + TOP, top + 8);
            commit(slot + top + ARRAY, value);
            true
        }
    }
}

mod whole_batch {
    use super::{ARRAY, TOP};

    atomseq::sequence! {
        /// Copies all words given, not only those there is room for.
        pub(super) unsafe fn push_batch(slot: Slot, capacity: Word, from: Word, count: Word) -> Word {
            let top = load(slot + TOP);
            let taken = min((capacity - top) >> 3, count);
            prepare_copy(slot + top + ARRAY, from, count);
            commit(slot + TOP, top + (taken << 3));
            taken
        }
    }
}

mod wrong_end {
    use super::{ARRAY, TOP};

    atomseq::sequence! {
        /// Takes from the bottom, and moves the top.
        pub(super) unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
            let top = load(slot + TOP);
            let taken = min(top >> 3, count);
            prepare_copy(to, slot + (top - top) + ARRAY, taken);
            commit(slot + TOP, top - (taken << 3));
            taken
        }
    }
}

mod one_word_more {
    use super::{ARRAY, TOP};

    atomseq::sequence! {
        /// Copies a word more than it takes, and more than the caller has room for.
        pub(super) unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
            let top = load(slot + TOP);
            let taken = min(top >> 3, count);
            let rest = top - (taken << 3);
            prepare_copy(to, slot + rest + ARRAY, taken + 1);
            commit(slot + TOP, rest);
            taken
        }
    }
}

pub fn all() -> Vec<Broken> {
    let stack = || Stack {
        cpus: 1,
        capacity: 3,
        history: usize::MAX,
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
