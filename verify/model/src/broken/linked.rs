//! Wrong lists and queues.

use atomseq::percpu::Area;

use super::Broken;
use crate::execution::Fault;
use crate::layout::CALLERS;
use crate::structure::{answer, none};
use crate::structures::{List, Queue};

const FIRST: usize = Area::FIRST_WORD;

mod stale_link {
    use super::FIRST;

    atomseq::sequence! {
        /// The caller has loaded the first node and its link before; the sequence compares only the
        /// first again.
        pub(super) unsafe fn pop(slot: Slot, first: Word, next: Word) -> Option<Word> {
            if load(slot + FIRST) != first { return None }
            commit(slot + FIRST, next);
            Some(first)
        }
    }
}

mod no_end {
    use super::FIRST;

    atomseq::sequence! {
        /// Does not test whether there is a node.
        pub(super) unsafe fn pop(slot: Slot) -> Option<Word> {
            let first = load(slot + FIRST);
            let next = load(first);
            commit(slot + FIRST, next);
            Some(first)
        }
    }
}

mod last_stays {
    use super::FIRST;

    atomseq::sequence! {
        /// Leaves early with a node that it has not taken.
        pub(super) unsafe fn pop(slot: Slot) -> Option<Word> {
            let first = load(slot + FIRST);
            if first == 0 { return None }
            let next = load(first);
            if next == 0 { return Some(first) }
            commit(slot + FIRST, next);
            Some(first)
        }
    }
}

mod not_linked {
    use super::FIRST;

    atomseq::sequence! {
        /// Assumes that the link is what it was when the node was removed.
        pub(super) unsafe fn push(slot: Slot, link: Word) {
            if load(slot + FIRST) == link { return }
            commit(slot + FIRST, link);
        }
    }
}

mod behind_the_first {
    use super::FIRST;

    atomseq::sequence! {
        /// Prepares the link of the node at the lower address, which may be the shared one.
        pub(super) unsafe fn push(slot: Slot, link: Word) {
            let first = load(slot + FIRST);
            let place = min(first - 8, link - 8);
            prepare(place + 8, first);
            commit(slot + FIRST, link);
        }
    }
}

/// Returns the nodes that the caller may have seen in a list at some time, with their successors.
fn seen_before(_words: &[usize]) -> Vec<Vec<usize>> {
    let links = [CALLERS, CALLERS + 0x10];
    let pair = |first: usize, next: usize| vec![first, next];
    vec![
        pair(links[0], 0),
        pair(links[0], links[1]),
        pair(links[1], links[0]),
    ]
}

pub fn lists() -> Vec<Broken> {
    vec![
        Broken::new(
            "the link was loaded outside the section",
            List,
            &stale_link::pop::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. } | Fault::Broken(_)),
        )
        .with_words(seen_before)
        .unless(|content, call, cpu| {
            let other = content[cpu].last() != call.passed.first();
            other.then(|| answer(none()))
        }),
        Broken::new(
            "an empty list is followed",
            List,
            &no_end::pop::MODEL,
            |fault| matches!(fault, Fault::Outside(span) if span.address == 0),
        ),
        Broken::new(
            "an early exit has not taken what it returns",
            List,
            &last_stays::pop::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. }),
        ),
        Broken::new(
            "the link is not prepared",
            List,
            &not_linked::push::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. } | Fault::Broken(_)),
        ),
        Broken::new(
            "a node in the list is prepared",
            List,
            &behind_the_first::push::MODEL,
            |fault| matches!(fault, Fault::VisibleBeforeCommit { .. } | Fault::Broken(_)),
        ),
    ]
}

const HEAD: usize = Area::FIRST_WORD;
const TAIL: usize = Area::FIRST_WORD + 8;
const LINK: usize = 0;
const VALUE: usize = 8;
const NUMBER: usize = 16;

mod never_full {
    use super::{LINK, NUMBER, TAIL, VALUE};

    atomseq::sequence! {
        /// Does not test whether the next cell is free.
        pub(super) unsafe fn push(slot: Slot, value: Word) -> bool {
            let cell = load(slot + TAIL);
            let next = load(cell + LINK);
            prepare(cell + VALUE, value);
            prepare(next + NUMBER, load(cell + NUMBER) + 1);
            commit(slot + TAIL, next);
            true
        }
    }
}

mod unnumbered {
    use super::{HEAD, LINK, TAIL, VALUE};

    atomseq::sequence! {
        /// Does not number the next cell.
        pub(super) unsafe fn push(slot: Slot, value: Word) -> bool {
            let cell = load(slot + TAIL);
            let next = load(cell + LINK);
            if next == load(slot + HEAD) { return false }
            prepare(cell + VALUE, value);
            commit(slot + TAIL, next);
            true
        }
    }
}

mod numbered_anew {
    use super::{HEAD, LINK, NUMBER, TAIL, VALUE};

    atomseq::sequence! {
        /// Numbers the next cell by its own old number: the attempts of one push count as several.
        pub(super) unsafe fn push(slot: Slot, value: Word) -> bool {
            let cell = load(slot + TAIL);
            let next = load(cell + LINK);
            if next == load(slot + HEAD) { return false }
            prepare(cell + VALUE, value);
            let alias = next + (cell - cell);
            prepare(alias + NUMBER, load(next + NUMBER) + 1);
            commit(slot + TAIL, next);
            true
        }
    }
}

mod open_ring {
    use super::{LINK, TAIL};

    atomseq::sequence! {
        /// Does not link the new cells to the rest of the ring.
        pub(super) unsafe fn grow(slot: Slot, first: Word, last: Word) {
            let cell = load(slot + TAIL);
            if last == 0 { return }
            commit(cell + LINK, first);
        }
    }
}

mod grows_at_the_head {
    use super::{HEAD, LINK};

    atomseq::sequence! {
        /// Splices new cells in among the full ones.
        pub(super) unsafe fn grow(slot: Slot, first: Word, last: Word) {
            let cell = load(slot + HEAD);
            let next = load(cell + LINK);
            prepare(last + LINK, next);
            commit(cell + LINK, first);
        }
    }
}

mod grows_backwards {
    use super::{LINK, TAIL};

    atomseq::sequence! {
        /// Opens the ring first, closes it with the commit.
        pub(super) unsafe fn grow(slot: Slot, first: Word, last: Word) {
            let cell = load(slot + TAIL);
            let next = load(load(slot + TAIL) + LINK);
            prepare(cell + LINK, first);
            commit(last + LINK, next);
        }
    }
}

pub fn queues() -> Vec<Broken> {
    let queue = || Queue {
        cpus: 1,
        chains: 1,
        history: 6,
    };
    vec![
        Broken::new(
            "a full ring takes one more",
            queue(),
            &never_full::push::MODEL,
            // It numbers a full cell, before it fills it.
            |fault| matches!(fault, Fault::Broken(_)),
        ),
        Broken::new(
            "a cell keeps the number that it had a round before",
            queue(),
            &unnumbered::push::MODEL,
            |fault| matches!(fault, Fault::Broken(_)),
        ),
        Broken::new(
            "a cell's number counts attempts",
            queue(),
            &numbered_anew::push::MODEL,
            |fault| matches!(fault, Fault::Broken(_)),
        ),
        Broken::new(
            "the grown ring does not close",
            queue(),
            &open_ring::grow::MODEL,
            |fault| matches!(fault, Fault::Broken(_)),
        ),
        Broken::new(
            "a full part of the ring grows",
            queue(),
            &grows_at_the_head::grow::MODEL,
            |fault| matches!(fault, Fault::Broken(_)),
        ),
        Broken::new(
            "the ring is opened before the commit",
            queue(),
            &grows_backwards::grow::MODEL,
            |fault| matches!(fault, Fault::Broken(_)),
        ),
    ]
}
