//! The models: what threads do, and what may come of it.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::thread;

use crate::Library;
use crate::sync::FULL_BARRIER;

/// What a thread does once, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Push(usize),
    Pop,
    Len,
}

use Call::{Len, Pop, Push};

/// So much room, what has gone through, what is there, and what each thread does.
struct Model {
    room: usize,
    gone: usize,
    there: usize,
    threads: &'static [&'static [Call]],
}

/// Each thread makes a change and is refused, unless it sees the other's.
const BOTH_ENDS: Model = Model {
    room: 2,
    gone: 1,
    there: 1,
    threads: &[&[Push(11), Push(12)], &[Pop, Pop]],
};

macro_rules! models {
    ($($name:literal: $model:expr;)*) => {
        /// All of them by name.
        pub fn all<L: Library>() -> Vec<(&'static str, fn())> {
            let mut all: Vec<(&'static str, fn())> = vec![$(($name, || run::<L>(&$model))),*];
            all.push(("each finds its end", || {
                FULL_BARRIER.set(true);
                run::<L>(&BOTH_ENDS);
                FULL_BARRIER.set(false);
            }));
            all
        }

        /// Those that a barrier lets hold.
        pub fn in_need_of_a_barrier<L: Library>() -> Vec<(&'static str, fn())> {
            vec![("each finds its end", || run::<L>(&BOTH_ENDS))]
        }
    };
}

models! {
    "an element goes around": Model {
        room: 1, gone: 0, there: 0, threads: &[&[Push(11), Push(12)], &[Pop, Pop]],
    };
    "full for two": Model {
        room: 1, gone: 1, there: 0, threads: &[&[Push(11), Pop], &[Push(21)]],
    };
    "empty for two": Model {
        room: 2, gone: 1, there: 1, threads: &[&[Pop], &[Pop, Push(21)]],
    };
    "two push": Model {
        room: 3, gone: 2, there: 0, threads: &[&[Push(11), Push(12)], &[Push(21)]],
    };
    "two pop": Model {
        room: 3, gone: 2, there: 3, threads: &[&[Pop, Pop], &[Pop]],
    };
    "rounds go by": Model {
        room: 1, gone: 1, there: 0, threads: &[&[Push(11), Pop, Push(12), Pop], &[Push(21)]],
    };
    "rounds go by for one who pops": Model {
        room: 1, gone: 0, there: 1, threads: &[&[Pop, Push(11), Pop], &[Pop]],
    };
    "the length": Model {
        room: 2, gone: 0, there: 1, threads: &[&[Push(11), Pop], &[Len]],
    };
    "the length, and rounds": Model {
        room: 1, gone: 0, there: 0, threads: &[&[Push(11), Pop, Push(12)], &[Len]],
    };
    "three at a time": Model {
        room: 1, gone: 0, there: 1, threads: &[&[Pop], &[Push(11)], &[Push(21)]],
    };
}

/// What a call returned: whether it pushed, what it popped, or how many there are.
type Answer = Option<usize>;

fn call<L: Library>(ring: &L::Ring, call: Call) -> Answer {
    match call {
        Push(word) => L::push(ring, word).then_some(0),
        Pop => L::pop(ring),
        Len => Some(L::len(ring)),
    }
}

/// The same of a queue that nobody shares.
fn right(queue: &mut VecDeque<usize>, room: usize, call: Call) -> Answer {
    match call {
        Push(_) if queue.len() == room => None,
        Push(word) => {
            queue.push_back(word);
            Some(0)
        }
        Pop => queue.pop_front(),
        Len => Some(queue.len()),
    }
}

/// There is an order of all calls, in which each thread's are as it made them, that explains all
/// answers and what is left.
fn run<L: Library>(model: &Model) {
    let ring = Arc::new(L::ring(model.room));
    for number in 0..model.gone {
        assert!(L::push(&ring, number));
        assert_eq!(L::pop(&ring), Some(number));
    }
    let there: VecDeque<usize> = (1..=model.there).collect();
    there.iter().for_each(|&word| assert!(L::push(&ring, word)));
    let answers = |ring: &L::Ring, calls: &[Call]| -> Vec<(Call, Answer)> {
        calls
            .iter()
            .map(|&each| (each, call::<L>(ring, each)))
            .collect()
    };
    let others: Vec<_> = model.threads[1..]
        .iter()
        .map(|&calls| {
            // If the model fails before this thread begins, loom drops what the thread was given
            // outside the model, where it cannot be dropped.
            let ring = ManuallyDrop::new(Arc::clone(&ring));
            thread::spawn(move || {
                let all = answers(&ring, calls);
                drop(ManuallyDrop::into_inner(ring));
                StdArc::new(all)
            })
        })
        .collect();
    let mut all = vec![answers(&ring, model.threads[0])];
    all.extend(
        others
            .into_iter()
            .map(|other| other.join().unwrap().to_vec()),
    );
    let left: Vec<usize> = std::iter::from_fn(|| L::pop(&ring)).collect();
    let calls: Vec<&[(Call, Answer)]> = all.iter().map(Vec::as_slice).collect();
    assert!(
        is_explained(&there, model.room, &calls, &left),
        "no order explains {all:?}, with {left:?} left"
    );
}

fn is_explained(
    queue: &VecDeque<usize>,
    room: usize,
    threads: &[&[(Call, Answer)]],
    left: &[usize],
) -> bool {
    if threads.iter().all(|thread| thread.is_empty()) {
        return queue.iter().eq(left);
    }
    (0..threads.len()).any(|next| {
        let Some((&(each, answer), rest)) = threads[next].split_first() else {
            return false;
        };
        let (mut queue, mut threads) = (queue.clone(), threads.to_vec());
        threads[next] = rest;
        right(&mut queue, room, each) == answer && is_explained(&queue, room, &threads, left)
    })
}
