//! Wrong structures of those that a thread shares with its handlers, and right ones that nothing
//! protects.

use super::Broken;
use super::recovery::{Recovering, torn};
use crate::report::Fault;
use crate::structure::Recovery;
use crate::structures::local::{Map, Passage, Queue, Ring, Stack};
use crate::structures::program;

mod stack {
    atomseq::sequence! {
        /// Takes the word from the place above the top.
        pub(super) unsafe fn pop(stack: Word) -> Option<Word> {
            let popped = load(stack + 8);
            let height = load(stack) - popped;
            if height == 0 { return None }
            let value = load(stack + height + 16);
            commit(stack + 8, popped + 8);
            Some(value)
        }
    }
}

mod queue {
    atomseq::sequence! {
        /// Lets one word too many in.
        pub(super) unsafe fn push(queue: Word, capacity: Word, value: Word) -> bool {
            let tail = load(queue + 8);
            if tail - load(queue) > capacity { return false }
            prepare(queue + (tail & (capacity - 8)) + 16, value);
            commit(queue + 8, tail + 8);
            true
        }
    }
}

mod ring {
    atomseq::sequence! {
        /// Fills a place without looking whether the tail has moved.
        pub(super) unsafe fn fill(ring: Word, tail: Word, to: Word, from: Word) -> bool {
            let now = load(ring + 8);
            store(to, load(from));
            if now != tail { return false }
            true
        }

        /// Moves on, from wherever it is.
        pub(super) unsafe fn advance(position: Word, from: Word, to: Word) -> bool {
            commit(position, to);
            true
        }
    }
}

mod map {
    atomseq::sequence! {
        /// Claims an entry without counting, so that other claims at the same version succeed.
        pub(super) unsafe fn claim(
            map: Word,
            version: Word,
            entry: Word,
            key: Word,
            value: Word
        ) -> bool {
            let inserted = load(map);
            if inserted + load(map + 8) != version { return false }
            store(entry, key);
            store(entry + 8, value);
            store(map, inserted);
            true
        }

        /// Asks for the version after it has changed something.
        pub(super) unsafe fn remove(map: Word, version: Word, entry: Word, mark: Word) -> Option<Word> {
            let removed = load(map + 8);
            let value = load(entry + 8);
            store(entry, mark);
            if load(map) + removed != version { return None }
            store(map + 8, removed + 1);
            Some(value)
        }

        /// Adds to whatever key the entry has now.
        pub(super) unsafe fn add(entry: Word, key: Word, amount: Word) -> bool {
            let value = load(entry + 8);
            commit(entry + 8, value + amount);
            true
        }
    }
}

fn wrong(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::WrongContent { .. } | Fault::WrongAnswer { .. }
    )
}

pub fn all() -> Vec<Broken> {
    let stack = || Stack {
        capacity: 2,
        history: 5,
    };
    let queue = || Queue {
        capacity: 2,
        history: 5,
    };
    let ring = || Ring {
        passage: Passage::Filling { words: 1 },
        history: 5,
    };
    let map = || Map { history: 3 };
    let unprotected = |_: &_| Recovery::Nothing;
    vec![
        Broken::new(
            "a local stack gives the word above its top",
            stack(),
            &stack::pop::MODEL,
            |fault| matches!(fault, Fault::WrongAnswer { .. } | Fault::Outside(_)),
        ),
        Broken::new(
            "a local queue lets one word too many in",
            queue(),
            &queue::push::MODEL,
            |fault| matches!(fault, Fault::VisibleBeforeCommit { .. } | Fault::Broken(_)),
        ),
        Broken::new(
            "a place is filled that a handler has taken",
            ring(),
            &ring::fill::MODEL,
            wrong,
        ),
        Broken::new(
            "a tail moves that a handler has moved",
            ring(),
            &ring::advance::MODEL,
            |fault| wrong(fault) || matches!(fault, Fault::Broken(_)),
        ),
        Broken::new(
            "a key comes and the version stays",
            map(),
            &map::claim::MODEL,
            wrong,
        ),
        Broken::new(
            "a key goes before the version is asked",
            map(),
            &map::remove::MODEL,
            wrong,
        ),
        Broken::new(
            "an amount goes to another key",
            map(),
            &map::add::MODEL,
            wrong,
        ),
        Broken::new(
            "nothing restarts a local stack",
            Recovering(stack(), unprotected),
            program("local/stack", "push"),
            torn,
        ),
        Broken::new(
            "nothing rolls a claim forward",
            Recovering(map(), unprotected),
            program("local/map", "claim"),
            torn,
        ),
        Broken::new(
            "nothing rolls a reader of two words forward",
            Recovering(ring(), unprotected),
            program("local/ring", "state"),
            torn,
        ),
    ]
}
