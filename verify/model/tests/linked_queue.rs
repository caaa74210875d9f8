//! The segments of `nonblocking::LinkedQueue` under loom, which tries every value that a weaker
//! load may return, and reports unordered accesses to a value. Runs the library's own source.
//!
//! Each protection is removed in turn, by a mutation of the source (`mutations/`), and must be
//! detected. Segments have two cells here, so that few calls use several, and a freed segment is
//! the next one that is allocated. Locks stand for a double-width exchange and for the pool.

use std::collections::VecDeque;

use Call::{Len, Pop, Push};
use loom::sync::Arc;
use verify_model::controls;
use verify_model::controls::{Attempt, Executions, holds, is_explained};

/// The modules on which the library's source is built.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    pub use verify_model::controls::UnsafeCell;

    /// Waiting threads let others run.
    pub fn spin_loop() {
        loom::thread::yield_now();
    }
}

/// Further modules on which it is built.
mod outside {
    use loom::sync::Mutex;

    use crate::sync::{AtomicU64, Ordering, spin_loop};

    /// Two words that change together, and are loaded one by one.
    pub struct Adjacent {
        words: [AtomicU64; 2],
        one_at_a_time: Mutex<()>,
    }

    impl Adjacent {
        pub fn new(first: u64, second: u64) -> Adjacent {
            Adjacent {
                words: [AtomicU64::new(first), AtomicU64::new(second)],
                one_at_a_time: Mutex::new(()),
            }
        }

        pub fn guess(&self) -> (u64, u64) {
            let [first, second] = &self.words;
            (
                first.load(Ordering::Acquire),
                second.load(Ordering::Acquire),
            )
        }

        /// Its thread completes each change itself.
        pub fn complete(&self) {}

        pub fn compare_exchange(&self, old: (u64, u64), new: (u64, u64)) -> Result<(), ()> {
            let _alone = self.one_at_a_time.lock().unwrap();
            if self.guess() != old {
                return Err(());
            }
            self.words[0].store(new.0, Ordering::Release);
            self.words[1].store(new.1, Ordering::Release);
            Ok(())
        }
    }

    /// One pause is as good as many, and takes fewer steps.
    pub struct Backoff;

    impl Backoff {
        pub fn new() -> Backoff {
            Backoff
        }

        pub fn during(_changes: u64) -> Backoff {
            Backoff
        }

        pub fn spin(&mut self) {
            spin_loop();
        }
    }
}

mod type_stable {
    use std::marker::PhantomData;
    use std::ops::Deref;

    use loom::sync::Mutex;

    /// Memory is there.
    #[derive(Debug)]
    pub struct Error;

    pub trait Descriptor: 'static {
        fn zeros() -> Self;
    }

    pub struct Options<T>(PhantomData<T>);

    impl<T: Descriptor> Options<T> {
        pub fn cached(self, _descriptors: usize) -> Options<T> {
            self
        }

        pub fn try_build(self) -> Result<Pool<T>, Error> {
            // Whatever a model needs. They are dropped with the pool, in the same execution.
            let all: Vec<Box<T>> = (0..5).map(|_| Box::new(T::zeros())).collect();
            let addresses = all
                .iter()
                .map(|each| (&raw const **each).expose_provenance());
            Ok(Pool {
                free: Mutex::new(addresses.collect()),
                all,
            })
        }
    }

    pub struct Pool<T> {
        free: Mutex<Vec<usize>>,
        all: Vec<Box<T>>,
    }

    pub struct Allocated<'a, T> {
        pool: &'a Pool<T>,
        descriptor: &'a T,
    }

    impl<T: Descriptor> Pool<T> {
        pub fn options() -> Options<T> {
            Options(PhantomData)
        }

        pub fn limit(&self) -> usize {
            self.all.len()
        }

        pub fn allocate(&self) -> Result<Allocated<'_, T>, Error> {
            let address = self.free.lock().unwrap().pop().expect("segments enough");
            let descriptor = std::ptr::with_exposed_provenance::<T>(address);
            // SAFETY: one of `all`.
            let descriptor = unsafe { &*descriptor };
            Ok(Allocated {
                pool: self,
                descriptor,
            })
        }

        /// # Safety
        ///
        /// The library's contract.
        pub unsafe fn adopt<'a>(&'a self, descriptor: &'a T) -> Allocated<'a, T> {
            Allocated {
                pool: self,
                descriptor,
            }
        }
    }

    impl<'a, T> Allocated<'a, T> {
        pub fn into_raw(self) -> &'a T {
            let descriptor = self.descriptor;
            std::mem::forget(self);
            descriptor
        }
    }

    impl<T> Deref for Allocated<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.descriptor
        }
    }

    impl<T> Drop for Allocated<'_, T> {
        fn drop(&mut self) {
            let mut free = self.pool.free.lock().unwrap();
            free.push(std::ptr::from_ref(self.descriptor).addr());
        }
    }
}

/// The library, unchanged or mutated.
trait Library: 'static {
    type Queue: Send + Sync + 'static;

    fn queue() -> Self::Queue;
    fn push(queue: &Self::Queue, value: u64);
    fn pop(queue: &Self::Queue) -> Option<u64>;
    fn len(queue: &Self::Queue) -> usize;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type Queue = segments::Segments<u64>;

            fn queue() -> Self::Queue {
                segments::Segments::new(crate::outside::Adjacent::new).expect("memory")
            }

            fn push(queue: &Self::Queue, value: u64) {
                queue.push(value).map_err(drop).expect("memory");
            }

            fn pop(queue: &Self::Queue) -> Option<u64> {
                queue.pop()
            }

            fn len(queue: &Self::Queue) -> usize {
                assert!(queue.limit() > 0);
                let len = queue.len();
                // Both look at the same end, so this only must not fail.
                queue.is_empty();
                len
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/linked_queue.rs"));

/// Returns all models, with as many preemptions as detect every variant: any number in those of the
/// length, which are small.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    let bound = |name: &str| Executions {
        preemptions: (!name.starts_with("the length")).then_some(3),
    };
    let models = all::<L>().into_iter();
    models.map(move |(name, model)| (name, bound(name), model))
}

#[test]
fn values_come_out_once_and_in_order() {
    for model in attempts::<as_it_is::This>() {
        let runs = holds("linked queue", model);
        assert!(runs > 4, "only {runs} orders");
    }
}

// The models: the threads' calls, and their possible results.

/// A call of a thread, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Push(u64),
    Pop,
    Len,
}

/// A model: the number of values that have passed through, the initial values, and each thread's
/// calls.
struct Model {
    through: u64,
    there: u64,
    threads: &'static [&'static [Call]],
}

macro_rules! models {
    ($($name:literal: $model:expr;)*) => {
        /// Returns all models by name.
        fn all<L: Library>() -> Vec<(&'static str, fn())> {
            vec![$(($name, || run::<L>(&$model))),*]
        }
    };
}

models! {
    "a value comes through": Model {
        through: 0, there: 0, threads: &[&[Push(11)], &[Pop, Pop]],
    };
    "two push": Model {
        through: 0, there: 0, threads: &[&[Push(11)], &[Push(21), Pop]],
    };
    "two push and another pops": Model {
        through: 1, there: 0, threads: &[&[Push(11)], &[Push(21)], &[Pop]],
    };
    "two pop": Model {
        through: 1, there: 2, threads: &[&[Pop], &[Pop]],
    };
    "two add a segment": Model {
        through: 1, there: 1, threads: &[&[Push(11)], &[Push(21)]],
    };
    "a segment is reused": Model {
        through: 0, there: 2, threads: &[&[Pop], &[Pop, Push(21), Pop, Push(22), Push(23)]],
    };
    "a segment is reused during a push": Model {
        through: 1, there: 0, threads: &[&[Push(11)], &[Push(21), Push(22), Pop, Pop, Push(23)]],
    };
    "the length": Model {
        through: 0, there: 1, threads: &[&[Push(11), Pop], &[Len]],
    };
    "the length while a value goes and another comes": Model {
        through: 0, there: 1, threads: &[&[Pop, Push(11)], &[Len]],
    };
    "one that pushes counts": Model {
        through: 1, there: 1, threads: &[&[Push(11)], &[Push(21), Len]],
    };
}

/// The result of a call: the value popped, or the number of values.
type Answer = Option<u64>;

fn call<L: Library>(queue: &L::Queue, call: Call) -> Answer {
    match call {
        Push(value) => {
            L::push(queue, value);
            None
        }
        Pop => L::pop(queue),
        Len => Some(L::len(queue) as u64),
    }
}

/// Returns the result of the same call on a queue that is not shared.
fn right(queue: &mut VecDeque<u64>, call: Call) -> Answer {
    match call {
        Push(value) => {
            queue.push_back(value);
            None
        }
        Pop => queue.pop_front(),
        Len => Some(queue.len() as u64),
    }
}

/// Checks that an order of all calls, in which each thread's calls are in its own order, explains
/// all results and the remaining elements.
fn run<L: Library>(model: &Model) {
    let queue = Arc::new(L::queue());
    for number in 0..model.through {
        L::push(&queue, number);
        assert_eq!(L::pop(&queue), Some(number));
    }
    let there: VecDeque<u64> = (1..=model.there).collect();
    there.iter().for_each(|&value| L::push(&queue, value));
    let all = controls::answers(&queue, model.threads, call::<L>);
    let left: Vec<u64> = std::iter::from_fn(|| L::pop(&queue)).collect();
    let calls: Vec<&[(Call, Answer)]> = all.iter().map(Vec::as_slice).collect();
    assert!(
        is_explained(&there, &calls, &left, &right),
        "no order explains {all:?}, with {left:?} left"
    );
}
