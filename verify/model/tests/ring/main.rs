//! `nonblocking::spsc::Ring` under loom: every value that a relaxed load may return, and a report
//! wherever both ends may touch a place with nothing to order them. The library's own source.
//!
//! Each ordering is weakened in turn, and each index of batches changed, by a change of the source
//! (`mutations.rs`), and that has to be found out.

#[macro_use]
#[path = "../controls/mod.rs"]
mod controls;
#[path = "../../../../crates/atomseq/src/distance.rs"]
mod distance;
#[path = "../../../../crates/atomseq/src/drops.rs"]
mod drops;
#[path = "../controls/loom.rs"]
mod explorer;
mod models;

/// What the source of the library is built on.
mod sync {
    pub use loom::sync::Arc;
    pub use loom::sync::atomic::{AtomicUsize, Ordering, fence};

    /// A cell that whoever asks for its pointer must have to itself at that time.
    pub struct UnsafeCell<T> {
        value: std::cell::UnsafeCell<T>,
        owner: loom::cell::UnsafeCell<()>,
    }

    impl<T> UnsafeCell<T> {
        pub fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell {
                value: std::cell::UnsafeCell::new(value),
                owner: loom::cell::UnsafeCell::new(()),
            }
        }

        pub fn get(&self) -> *mut T {
            self.owner.with_mut(|_| ());
            self.value.get()
        }
    }
}

use controls::Attempt;
use explorer::Executions;

/// As the library's.
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

/// No ring of these models is refused.
fn check_capacity(_capacity: usize) -> Result<(), Error> {
    Ok(())
}

/// The library, as it is or with something wrong.
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
    /// So many at most.
    fn drain(consumer: &mut Self::Consumer, most: usize) -> Vec<u64>;
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

            fn drain(consumer: &mut Self::Consumer, most: usize) -> Vec<u64> {
                consumer.drain().take(most).collect()
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/ring.rs"));

/// All models, with no bound on preemptions.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    let all = || Executions { preemptions: None };
    let models = models::all::<L>().into_iter();
    models.map(move |(name, model)| (name, all(), model))
}

#[test]
fn every_place_belongs_to_one_end_at_a_time() {
    for model in attempts::<as_it_is::This>() {
        let runs = controls::holds("ring", model);
        assert!(runs > 20, "only {runs} orders");
    }
}
