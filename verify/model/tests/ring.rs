//! `nonblocking::spsc::Ring` under loom, which tries every value that a relaxed load may return,
//! and reports unordered accesses of both ends to a cell. Runs the library's own source.
//!
//! Each ordering is weakened in turn, and each index of batches changed, by a mutation of the
//! source (`mutations/`), and must be detected.

#[path = "../../../crates/atomseq/src/or_panic.rs"]
mod or_panic;
use std::mem::ManuallyDrop;

use Way::{Batch, Drain, One, Vector};
use verify_model::controls;
use verify_model::controls::loom_thread as thread;
use verify_model::controls::{Attempt, Executions, holds};

#[path = "../../../crates/atomseq/src/distance.rs"]
mod distance;
#[path = "../../../crates/atomseq/src/drops.rs"]
mod drops;

/// The modules on which the library's source is built.
mod sync {
    pub use loom::sync::Arc;
    pub use loom::sync::atomic::{AtomicUsize, Ordering, fence};
    pub use verify_model::controls::UnsafeCell;
}

/// The library's type.
#[derive(Debug)]
#[allow(dead_code, reason = "models have rings that can be made")]
enum Error {
    ZeroCapacity,
    OutOfMemory,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Every ring of these models has a valid capacity.
fn check_capacity(_capacity: usize) -> Result<(), Error> {
    Ok(())
}

/// The library, unchanged or mutated.
trait Library: 'static {
    type Producer: Send + 'static;
    type Consumer: Send + 'static;

    fn ends(capacity: usize) -> (Self::Producer, Self::Consumer);
    fn push(producer: &mut Self::Producer, value: u64) -> bool;
    fn peek(consumer: &mut Self::Consumer) -> Option<u64>;
    fn pop(consumer: &mut Self::Consumer) -> Option<u64>;

    fn push_batch(producer: &mut Self::Producer, elements: &[u64]) -> usize;
    fn append(producer: &mut Self::Producer, elements: &mut Vec<u64>) -> usize;
    fn pop_batch(consumer: &mut Self::Consumer, into: &mut [u64]) -> usize;
    fn pop_into(consumer: &mut Self::Consumer, elements: &mut Vec<u64>) -> usize;
    /// Drains this many elements at most.
    fn drain(consumer: &mut Self::Consumer, max: usize) -> Vec<u64>;
}

macro_rules! library {
    () => {
        use crate::{Error, check_capacity};

        pub struct This;

        impl crate::Library for This {
            type Producer = spsc::Producer<'static, u64>;
            type Consumer = spsc::Consumer<'static, u64>;

            fn ends(capacity: usize) -> (Self::Producer, Self::Consumer) {
                spsc::Ring::with_capacity(capacity).into_ends()
            }

            fn push(producer: &mut Self::Producer, value: u64) -> bool {
                producer.push(value).is_ok()
            }

            fn peek(consumer: &mut Self::Consumer) -> Option<u64> {
                consumer.peek().copied()
            }

            fn pop(consumer: &mut Self::Consumer) -> Option<u64> {
                consumer.pop()
            }

            fn push_batch(producer: &mut Self::Producer, elements: &[u64]) -> usize {
                producer.push_batch(elements)
            }

            fn append(producer: &mut Self::Producer, elements: &mut Vec<u64>) -> usize {
                producer.append(elements)
            }

            fn pop_batch(consumer: &mut Self::Consumer, into: &mut [u64]) -> usize {
                consumer.pop_batch(into)
            }

            fn pop_into(consumer: &mut Self::Consumer, elements: &mut Vec<u64>) -> usize {
                consumer.pop_into(elements)
            }

            fn drain(consumer: &mut Self::Consumer, max: usize) -> Vec<u64> {
                consumer.drain().take(max).collect()
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/ring.rs"));

/// Returns all models, without a bound on preemptions.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    let unbounded = || Executions { preemptions: None };
    let models = all::<L>().into_iter();
    models.map(move |(name, model)| (name, unbounded(), model))
}

#[test]
fn every_place_belongs_to_one_end_at_a_time() {
    for model in attempts::<as_it_is::This>() {
        let runs = holds("ring", model);
        assert!(runs > 20, "only {runs} orders");
    }
}

// The models: how both ends are used, and the elements that must be received.

/// How elements are pushed or popped.
#[derive(Clone, Copy)]
enum Way {
    /// One by one.
    One,
    /// This many from a slice, or into one.
    Batch(usize),
    /// This many from a vector, or into one that is not empty.
    Vector(usize),
    /// This many from a draining iterator that is dropped then.
    Drain(usize),
}

/// A ring of this capacity, the number of elements that have passed through it, and the number of
/// operations at each end.
struct Model {
    room: usize,
    through: u64,
    put: (usize, Way),
    take: (usize, Way),
}

/// Returns all models by name, the largest last. A capacity of three has four cells.
fn all<L: Library>() -> [(&'static str, fn()); 8] {
    [
        ("two of each, room for one", || {
            pass::<L>(&Model {
                room: 1,
                through: 0,
                put: (2, One),
                take: (2, One),
            });
        }),
        ("batches around the end", || {
            pass::<L>(&Model {
                room: 2,
                through: 1,
                put: (2, Batch(2)),
                take: (2, Batch(2)),
            });
        }),
        ("a vector that is larger than the room", || {
            pass::<L>(&Model {
                room: 3,
                through: 3,
                put: (2, Vector(4)),
                take: (3, One),
            });
        }),
        ("one by one into vectors", || {
            pass::<L>(&Model {
                room: 3,
                through: 3,
                put: (3, One),
                take: (2, Vector(2)),
            });
        }),
        ("iterators that are dropped", || {
            pass::<L>(&Model {
                room: 3,
                through: 2,
                put: (2, Batch(3)),
                take: (2, Drain(2)),
            });
        }),
        ("a batch that leaves some behind", || {
            pass::<L>(&Model {
                room: 3,
                through: 0,
                put: (2, Batch(3)),
                take: (1, Batch(2)),
            });
        }),
        ("three of each, room for one", || {
            pass::<L>(&Model {
                room: 1,
                through: 0,
                put: (3, One),
                take: (3, One),
            });
        }),
        ("three of each, room for two", || {
            pass::<L>(&Model {
                room: 2,
                through: 0,
                put: (3, One),
                take: (3, One),
            });
        }),
    ]
}

impl Way {
    fn max(self) -> usize {
        match self {
            One => 1,
            Batch(max) | Vector(max) | Drain(max) => max,
        }
    }

    /// Pushes elements, numbered from `next` on; returns how many.
    fn put<L: Library>(self, producer: &mut L::Producer, next: u64) -> usize {
        let mut elements: Vec<u64> = (next..next + self.max() as u64).collect();
        match self {
            Vector(_) => {
                let put = L::append(producer, &mut elements);
                let rest = next + put as u64..next + self.max() as u64;
                assert!(elements.iter().copied().eq(rest), "{elements:?} are left");
                put
            }
            Batch(_) => L::push_batch(producer, &elements),
            One => usize::from(L::push(producer, next)),
            Drain(_) => unreachable!("nothing goes in that way"),
        }
    }

    fn take<L: Library>(self, consumer: &mut L::Consumer) -> Vec<u64> {
        match self {
            One => {
                let seen = L::peek(consumer);
                let element = L::pop(consumer);
                assert!(seen.is_none() || seen == element);
                Vec::from_iter(element)
            }
            Batch(max) => {
                let mut elements = vec![0; max];
                let taken = L::pop_batch(consumer, &mut elements);
                elements.truncate(taken);
                elements
            }
            Vector(max) => {
                let mut elements = Vec::with_capacity(1 + max);
                elements.push(99);
                let taken = L::pop_into(consumer, &mut elements);
                assert_eq!((elements.len(), elements[0]), (1 + taken, 99));
                elements.split_off(1)
            }
            Drain(max) => L::drain(consumer, max),
        }
    }
}

/// Checks that nothing is lost, duplicated or reordered.
fn pass<L: Library>(model: &Model) {
    let &Model {
        room,
        through,
        put: (puts, put),
        take: (takes, take),
    } = model;
    let (mut producer, mut consumer) = L::ends(room);
    for number in 1..=through {
        assert!(L::push(&mut producer, number));
        assert_eq!(L::pop(&mut consumer), Some(number));
    }
    // If the model fails before this thread begins, loom drops the thread's captured values outside
    // of the model, where these cannot be dropped.
    let mut producer = ManuallyDrop::new(producer);
    let putting = thread::spawn(move || {
        let mut all = 0;
        for number in 0..puts {
            let more = put.put::<L>(&mut producer, through + 1 + all as u64);
            // The ring is empty at first.
            assert!(number > 0 || more == put.max().min(room), "only {more}");
            all += more;
        }
        drop(ManuallyDrop::into_inner(producer));
        all
    });
    let mut taken = 0;
    let mut check = |elements: Vec<u64>| {
        for element in elements {
            taken += 1;
            assert_eq!(
                element,
                through + taken as u64,
                "lost, doubled or out of order"
            );
        }
        taken
    };
    let mut there = 0;
    for _ in 0..takes {
        there = check(take.take::<L>(&mut consumer));
    }
    let all = putting.join().unwrap();
    // The producer has finished.
    while there < all {
        let right = all.min(there + take.max());
        there = check(take.take::<L>(&mut consumer));
        assert_eq!(there, right, "not as many as there are");
    }
    assert_eq!(L::pop(&mut consumer), None, "doubled");
}
