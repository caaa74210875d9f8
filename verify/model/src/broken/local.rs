//! Correct sequences with the wrong recovery: the faults that another mechanism would cause.

use atomseq::sequence::model::{Memory, Program, Step};

use super::Broken;
use crate::execution::Fault;
use crate::structure::{Answer, Call, Content, Recovery, Structure};
use crate::structures::local::{Map, Passage, Queue, Ring, Stack};
use crate::structures::{Fifo, List, program};

/// A structure whose sequences recover as given here.
pub(super) struct Recovering<S>(pub(super) S, pub(super) fn(&Program) -> Recovery);

impl<S: Structure> Structure for Recovering<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn cpus(&self) -> usize {
        1
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        self.0.nodes()
    }

    fn bulk_bytes(&self) -> usize {
        self.0.bulk_bytes()
    }

    fn longest_history(&self) -> usize {
        self.0.longest_history()
    }

    fn recovery(&self, program: &Program) -> Recovery {
        (self.1)(program)
    }

    fn empty(&self) -> Memory {
        self.0.empty()
    }

    fn calls(&self, memory: &Memory) -> Vec<Call> {
        self.0.calls(memory)
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut content = self.0.content(memory)?;
        // Rows of other CPUs; a structure of one CPU may have several rows.
        if self.0.cpus() > 1 {
            content.truncate(1);
        }
        Ok(content)
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        self.0.meaning(content, call, cpu)
    }
}

/// Returns the sequence with its last store as a commit, so that it has the shape of a restartable
/// one.
fn restartable(program: &'static Program) -> &'static Program {
    let mut steps = program.steps.to_vec();
    match steps.last_mut() {
        Some(last @ Step::Store { .. }) => {
            let Step::Store { to, value, bytes } = *last else {
                unreachable!("it was matched above");
            };
            *last = Step::Commit { to, value, bytes };
        }
        other => panic!("no store at the end: {other:?}"),
    }
    Box::leak(Box::new(Program {
        steps: Vec::leak(steps),
        ..*program
    }))
}

/// Returns whether the fault is a wrong result of the call that another call interrupted.
pub(super) fn torn(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::WrongContent { .. } | Fault::Broken(_) | Fault::WrongAnswer { .. }
    )
}

/// Returns whether a handler could see, or would repeat, a part of the sequence.
fn seen(fault: &Fault) -> bool {
    matches!(fault, Fault::VisibleBeforeCommit { .. } | Fault::Broken(_))
}

pub fn recovery() -> Vec<Broken> {
    let [enqueue, dequeue] = ["enqueue", "dequeue"].map(|name| program("fifo", name));
    vec![
        Broken::new(
            "visible stores are restarted",
            Recovering(Fifo, Recovery::of),
            restartable(enqueue),
            seen,
        ),
        Broken::new(
            "visible stores before an early return are restarted",
            Recovering(Fifo, Recovery::of),
            restartable(dequeue),
            seen,
        ),
        Broken::new(
            "what has no commit is restarted",
            Recovering(Fifo, |_| Recovery::Restart),
            enqueue,
            |fault| *fault == Fault::Shape,
        ),
        Broken::new(
            "nothing rolls a queue forward",
            Recovering(Fifo, |_| Recovery::Nothing),
            enqueue,
            torn,
        ),
        Broken::new(
            "nothing restarts a list",
            Recovering(List, |_| Recovery::Nothing),
            program("list", "pop"),
            torn,
        ),
    ]
}

// Wrong sequences of the structures that a thread shares with its handlers, and correct ones
// without protection.

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
        /// Accepts one word more than the capacity.
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
        /// Fills a cell without testing whether the tail has moved.
        pub(super) unsafe fn fill(ring: Word, tail: Word, to: Word, from: Word) -> bool {
            let now = load(ring + 8);
            store(to, load(from));
            if now != tail { return false }
            true
        }

        /// Advances the position from whatever value it has.
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

        /// Tests the version only after it has changed a word.
        pub(super) unsafe fn remove(map: Word, version: Word, entry: Word, mark: Word) -> Option<Word> {
            let removed = load(map + 8);
            let value = load(entry + 8);
            store(entry, mark);
            if load(map) + removed != version { return None }
            store(map + 8, removed + 1);
            Some(value)
        }

        /// Adds to the value of whatever key the entry has now.
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

pub fn structures() -> Vec<Broken> {
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
