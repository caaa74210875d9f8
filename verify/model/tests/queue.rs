//! The ring of `nonblocking::Queue` under loom, which tries every value that a weaker load may
//! return. Runs the library's own source.
//!
//! Each protection is removed in turn, by a mutation of the source (`mutations/`), and must be
//! detected. loom has no double-width exchange: here a lock serializes the exchanges of a pair,
//! which then store the two words one after the other. Loads may therefore return more values than
//! in reality.

use std::collections::VecDeque;

use Call::{Len, Pop, Push};
use loom::sync::Arc;
use sync::FULL_BARRIER;
use verify_model::controls;
use verify_model::controls::{Attempt, Executions, holds, is_explained, is_found_out};

/// The modules on which the library's source is built.
mod sync {
    use loom::sync::Mutex;
    use loom::sync::atomic::fence;
    pub use loom::sync::atomic::{AtomicU64, Ordering};

    thread_local! {
        /// No later SeqCst load of the same thread passes an exchange: on x86-64 an exchange is a
        /// full barrier, on AArch64 a release for which such loads wait. loom orders SeqCst fences,
        /// but not SeqCst loads. These fences order more than necessary, and so are made only in
        /// models that need them.
        pub static FULL_BARRIER: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Waiting threads let others run.
    pub fn spin_loop() {
        loom::thread::yield_now();
    }

    #[derive(Debug, Default)]
    pub struct Pair {
        first: AtomicU64,
        second: AtomicU64,
        one_at_a_time: Mutex<()>,
    }

    impl Pair {
        pub fn first(&self) -> &AtomicU64 {
            &self.first
        }

        pub fn second(&self) -> &AtomicU64 {
            &self.second
        }

        /// Exchanges like the instruction: it finds the value that was stored last.
        ///
        /// # Safety
        ///
        /// The library's contract.
        pub unsafe fn exchange(&self, expected: (u64, u64), new: (u64, u64)) -> bool {
            let _alone = self.one_at_a_time.lock().unwrap();
            let found = [&self.first, &self.second].map(|word| word.load(Ordering::Acquire));
            if found != [expected.0, expected.1] {
                return false;
            }
            self.second.store(new.1, Ordering::Release);
            self.first.store(new.0, Ordering::Release);
            if FULL_BARRIER.get() {
                fence(Ordering::SeqCst);
            }
            true
        }
    }
}

/// Further modules on which it is built.
mod outside {
    use crate::sync::{Pair, spin_loop};

    pub fn zeros(count: usize) -> Option<Box<[Pair]>> {
        Some((0..count).map(|_| Pair::default()).collect())
    }

    /// One pause is as good as many, and takes fewer steps.
    pub struct Backoff;

    impl Backoff {
        pub fn new() -> Backoff {
            Backoff
        }

        pub fn spin(&mut self) {
            spin_loop();
        }
    }

    /// Every wait is in vain.
    #[derive(Debug)]
    pub struct Patience;

    impl Patience {
        pub fn wait(
            &self,
            _changes: u64,
            _pauses: u64,
            _seen: u64,
            _look: impl Fn() -> u64,
        ) -> bool {
            false
        }
    }
}

/// The library, unchanged or mutated.
trait Library: 'static {
    type Ring: Send + Sync + 'static;

    fn ring(capacity: usize) -> Self::Ring;
    fn push(ring: &Self::Ring, word: usize) -> bool;
    fn pop(ring: &Self::Ring) -> Option<usize>;
    fn len(ring: &Self::Ring) -> usize;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type Ring = ring::Ring;

            fn ring(capacity: usize) -> ring::Ring {
                // SAFETY: these pairs need no instruction.
                unsafe { ring::Ring::new(capacity) }.expect("memory for a few pairs")
            }

            fn push(ring: &ring::Ring, word: usize) -> bool {
                ring.push(word)
            }

            fn pop(ring: &ring::Ring) -> Option<usize> {
                ring.pop()
            }

            fn len(ring: &ring::Ring) -> usize {
                ring.len()
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/queue.rs"));

/// Returns all models, with as many preemptions as detect every variant.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    let few = || Executions {
        preemptions: Some(3),
    };
    let models = all::<L>().into_iter();
    models.map(move |(name, model)| (name, few(), model))
}

#[test]
fn elements_come_out_once_and_in_order() {
    for model in attempts::<as_it_is::This>() {
        let runs = holds("queue", model);
        assert!(runs > 4, "only {runs} orders");
    }
}

/// Two threads whose exchanges and loads may pass each other.
#[test]
fn without_a_full_barrier_it_does_not_hold() {
    let attempts = in_need_of_a_barrier::<as_it_is::This>().into_iter();
    let attempts = attempts.map(|(name, model)| (name, Executions { preemptions: None }, model));
    is_found_out("queue: without a full barrier", attempts);
}

// The models: the threads' calls, and their possible results.

/// A call of a thread, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Push(usize),
    Pop,
    Len,
}

/// A model: the capacity, the number of elements that have passed through, the initial elements,
/// and each thread's calls.
struct Model {
    room: usize,
    through: usize,
    there: usize,
    threads: &'static [&'static [Call]],
}

/// Each thread makes a change and is refused, unless it sees the other's.
const BOTH_ENDS: Model = Model {
    room: 2,
    through: 1,
    there: 1,
    threads: &[&[Push(11), Push(12)], &[Pop, Pop]],
};

macro_rules! models {
    ($($name:literal: $model:expr;)*) => {
        /// Returns all models by name.
        fn all<L: Library>() -> Vec<(&'static str, fn())> {
            let mut all: Vec<(&'static str, fn())> = vec![$(($name, || run::<L>(&$model))),*];
            all.push(("each finds its end", || {
                FULL_BARRIER.set(true);
                run::<L>(&BOTH_ENDS);
                FULL_BARRIER.set(false);
            }));
            all
        }

        /// Returns the models that hold only with a barrier.
        fn in_need_of_a_barrier<L: Library>() -> Vec<(&'static str, fn())> {
            vec![("each finds its end", || run::<L>(&BOTH_ENDS))]
        }
    };
}

models! {
    "an element goes around": Model {
        room: 1, through: 0, there: 0, threads: &[&[Push(11), Push(12)], &[Pop, Pop]],
    };
    "full for two": Model {
        room: 1, through: 1, there: 0, threads: &[&[Push(11), Pop], &[Push(21)]],
    };
    "empty for two": Model {
        room: 2, through: 1, there: 1, threads: &[&[Pop], &[Pop, Push(21)]],
    };
    "two push": Model {
        room: 3, through: 2, there: 0, threads: &[&[Push(11), Push(12)], &[Push(21)]],
    };
    "two pop": Model {
        room: 3, through: 2, there: 3, threads: &[&[Pop, Pop], &[Pop]],
    };
    "rounds go by": Model {
        room: 1, through: 1, there: 0, threads: &[&[Push(11), Pop, Push(12), Pop], &[Push(21)]],
    };
    "rounds pass during a pop": Model {
        room: 1, through: 0, there: 1, threads: &[&[Pop, Push(11), Pop], &[Pop]],
    };
    "the length": Model {
        room: 2, through: 0, there: 1, threads: &[&[Push(11), Pop], &[Len]],
    };
    "the length, and rounds": Model {
        room: 1, through: 0, there: 0, threads: &[&[Push(11), Pop, Push(12)], &[Len]],
    };
    "three at a time": Model {
        room: 1, through: 0, there: 1, threads: &[&[Pop], &[Push(11)], &[Push(21)]],
    };
}

/// The result of a call: whether it pushed, the element popped, or the number of elements.
type Answer = Option<usize>;

fn call<L: Library>(ring: &L::Ring, call: Call) -> Answer {
    match call {
        Push(word) => L::push(ring, word).then_some(0),
        Pop => L::pop(ring),
        Len => Some(L::len(ring)),
    }
}

/// Returns the result of the same call on a queue that is not shared.
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

/// Checks that an order of all calls, in which each thread's calls are in its own order, explains
/// all results and the remaining elements.
fn run<L: Library>(model: &Model) {
    let ring = Arc::new(L::ring(model.room));
    for number in 0..model.through {
        assert!(L::push(&ring, number));
        assert_eq!(L::pop(&ring), Some(number));
    }
    let there: VecDeque<usize> = (1..=model.there).collect();
    there.iter().for_each(|&word| assert!(L::push(&ring, word)));
    let all = controls::answers(&ring, model.threads, call::<L>);
    let left: Vec<usize> = std::iter::from_fn(|| L::pop(&ring)).collect();
    let right = |queue: &mut VecDeque<usize>, call| right(queue, model.room, call);
    let calls: Vec<&[(Call, Answer)]> = all.iter().map(Vec::as_slice).collect();
    assert!(
        is_explained(&there, &calls, &left, &right),
        "no order explains {all:?}, with {left:?} left"
    );
}
