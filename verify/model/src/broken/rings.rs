//! Wrong rings.

use atomseq::percpu::Area;

use super::Broken;
use crate::report::Fault;
use crate::structures::Ring;

const HEAD: usize = Area::FIRST_WORD;
const TAIL: usize = Area::FIRST_WORD + 8;
const MASK: usize = Area::FIRST_WORD + 16;
const CAPACITY: usize = Area::FIRST_WORD + 24;
const BUFFER: usize = Area::BULK;

mod one_too_many {
    use super::{BUFFER, CAPACITY, HEAD, MASK, TAIL};

    atomseq::sequence! {
        /// Asks whether the ring is more than full.
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
        /// Takes a word in the caller's buffer, which was empty, for proof that the word has been
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
        /// Copies on where the buffer ends.
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

pub fn all() -> Vec<Broken> {
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
