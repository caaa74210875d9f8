//! Wrong queues.

use atomseq::percpu::Area;

use super::Broken;
use crate::report::Fault;
use crate::structures::Queue;

const HEAD: usize = Area::FIRST_WORD;
const TAIL: usize = Area::FIRST_WORD + 8;
const LINK: usize = 0;
const VALUE: usize = 8;
const NUMBER: usize = 16;

mod never_full {
    use super::{LINK, NUMBER, TAIL, VALUE};

    atomseq::sequence! {
        /// Does not ask whether the next cell is free.
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
        /// Numbers the next cell by what was there: the attempts of one push count as several.
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
        /// Splices new cells in among those that are full.
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

pub fn all() -> Vec<Broken> {
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
