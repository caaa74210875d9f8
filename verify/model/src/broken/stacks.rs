//! Wrong stacks.

use atomseq::percpu::Area;

use super::Broken;
use crate::checker::Fault;
use crate::layout::CALLERS;
use crate::structures::Stack;

const TOP: usize = Area::FIRST_WORD;
const BOTTOM: usize = Area::FIRST_WORD + 8;
const LIMIT: usize = Area::FIRST_WORD + 16;

mod half {
    use super::{LIMIT, TOP};

    atomseq::sequence! {
        /// Prepares half of the word that it makes visible.
        pub(super) unsafe fn push(slot: Slot, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == load(slot + LIMIT) { return false }
            prepare32(top, value);
            commit(slot + TOP, top + 8);
            true
        }
    }
}

mod taken_for_done {
    use super::{LIMIT, TOP};

    atomseq::sequence! {
        /// Reads the word it is about to prepare, by an address loaded a second time.
        pub(super) unsafe fn push(slot: Slot, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == load(slot + LIMIT) { return false }
            let alias = load(slot + TOP);
            if load(alias) == value { return true }
            prepare(top, value);
            commit(slot + TOP, top + 8);
            true
        }
    }
}

mod on_the_top {
    use super::{BOTTOM, LIMIT, TOP};

    atomseq::sequence! {
        /// Prepares the top element instead of the word above.
        pub(super) unsafe fn push(slot: Slot, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == load(slot + LIMIT) { return false }
            let bottom = load(slot + BOTTOM);
            let place = min(top - 8 - bottom, top - bottom) + bottom;
            prepare(place, value);
            commit(slot + TOP, top + 8);
            true
        }
    }
}

mod bounds_first {
    use super::{BOTTOM, LIMIT, TOP};

    atomseq::sequence! {
        /// Two words of the slot change, one of them before the commit.
        pub(super) unsafe fn push(slot: Slot, value: Word) -> bool {
            let top = load(slot + TOP);
            if top == load(slot + LIMIT) { return false }
            prepare(top, value);
            prepare(slot + BOTTOM, top);
            commit(slot + TOP, top + 8);
            true
        }
    }
}

mod whole_batch {
    use super::{LIMIT, TOP};

    atomseq::sequence! {
        /// Copies all words given, not only those there is room for.
        pub(super) unsafe fn push_batch(slot: Slot, from: Word, count: Word) -> Word {
            let top = load(slot + TOP);
            let taken = min((load(slot + LIMIT) - top) >> 3, count);
            prepare_copy(top, from, count);
            commit(slot + TOP, top + (taken << 3));
            taken
        }
    }
}

mod wrong_end {
    use super::{BOTTOM, TOP};

    atomseq::sequence! {
        /// Takes from the bottom, and moves the top.
        pub(super) unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
            let top = load(slot + TOP);
            let bottom = load(slot + BOTTOM);
            let taken = min((top - bottom) >> 3, count);
            prepare_copy(to, bottom, taken);
            commit(slot + TOP, top - (taken << 3));
            taken
        }
    }
}

mod one_word_more {
    use super::{BOTTOM, TOP};

    atomseq::sequence! {
        /// Copies a word more than it takes, and more than the caller has room for.
        pub(super) unsafe fn pop_batch(slot: Slot, to: Word, count: Word) -> Word {
            let top = load(slot + TOP);
            let taken = min((top - load(slot + BOTTOM)) >> 3, count);
            let rest = top - (taken << 3);
            prepare_copy(to, rest, taken + 1);
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
            &bounds_first::push::MODEL,
            |fault| matches!(fault, Fault::Broken(_)),
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
