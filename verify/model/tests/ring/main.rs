//! `nonblocking::spsc::Ring` under loom: every value that a relaxed load may return, and a report wherever both ends may
//! touch a place with nothing to order them. The library's own source.
//!
//! Each ordering is weakened in turn, by a change of the source (`mutations.rs`), and that has to be found out. Batches take the
//! same orderings; the copies that they make are not seen here.

mod mutations;

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
            // What a model that has failed leaves behind is dropped unseen.
            if !std::thread::panicking() {
                self.owner.with_mut(|_| ());
            }
            self.value.get()
        }
    }
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

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

/// The library, as it is or with a weaker ordering.
trait Library: 'static {
    const NAME: &'static str;

    type Producer: Send + 'static;
    type Consumer: Send + 'static;

    fn ends(capacity: usize) -> (Self::Producer, Self::Consumer);
    fn push(producer: &mut Self::Producer, value: u64) -> bool;
    fn peek(consumer: &mut Self::Consumer) -> Option<u64>;
    fn pop(consumer: &mut Self::Consumer) -> Option<u64>;
}

macro_rules! library {
    () => {
        use crate::{Error, check_capacity};

        pub struct This;

        impl crate::Library for This {
            const NAME: &'static str = module_path!();

            type Producer = spsc::Producer<'static, u64>;
            type Consumer = spsc::Consumer<'static, u64>;

            fn ends(capacity: usize) -> (Self::Producer, Self::Consumer) {
                spsc::Ring::new(capacity).into_ends()
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
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/ring.rs"));

/// So many attempts to push and as many to pop, with room for so many.
fn pass<L: Library>(capacity: usize, attempts: u64) {
    let (mut producer, mut consumer) = L::ends(capacity);
    let pushing = thread::spawn(move || {
        let mut pushed = 0;
        for _ in 0..attempts {
            pushed += u64::from(L::push(&mut producer, pushed));
        }
        pushed
    });
    let mut popped = 0;
    for _ in 0..attempts {
        let seen = L::peek(&mut consumer);
        let value = L::pop(&mut consumer);
        assert!(seen.is_none() || seen == value);
        if let Some(value) = value {
            assert_eq!(value, popped, "lost, doubled or out of order");
            popped += 1;
        }
    }
    let pushed = pushing.join().unwrap();
    while let Some(value) = L::pop(&mut consumer) {
        assert_eq!(value, popped, "lost, doubled or out of order");
        popped += 1;
    }
    assert_eq!(popped, pushed);
}

/// In how many executions a model was run, and what went wrong in one of them.
fn explore<L: Library>(capacity: usize, attempts: u64) -> (usize, Option<String>) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    let result = catch_unwind(AssertUnwindSafe(|| {
        loom::model::Builder::new().check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            pass::<L>(capacity, attempts);
        });
    }));
    let failure = result.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| (*panic.downcast_ref::<&str>().expect("a sentence")).to_owned())
    });
    (executions.load(Ordering::Relaxed), failure)
}

#[test]
fn every_place_belongs_to_one_end_at_a_time() {
    for (capacity, attempts) in [(1, 2), (1, 3), (2, 3)] {
        let (executions, failure) = explore::<as_it_is::This>(capacity, attempts);
        assert_eq!(
            failure, None,
            "capacity {capacity}, in execution {executions}"
        );
        println!("model: ring: capacity {capacity}: holds in all {executions} executions");
        assert!(executions > 20, "only {executions} executions");
    }
}

fn races<L: Library>() {
    let (executions, failure) = explore::<L>(1, 3);
    let failure = failure.unwrap_or_else(|| panic!("{}: nobody noticed", L::NAME));
    assert!(
        failure.contains("Causality violation"),
        "{}: {failure}",
        L::NAME
    );
    println!("model: {}: found out in execution {executions}", L::NAME);
}

macro_rules! controls {
    ($($name:ident)*) => {
        /// Each mutation has a test.
        const CONTROLS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                races::<self::$name::This>();
            }
        )*
    };
}

controls! {
    elements_are_not_released
    elements_are_not_acquired
    places_are_not_released
    places_are_not_acquired
}

#[test]
fn every_mutation_has_a_test() {
    let names = mutations::MUTATIONS.iter().map(|(name, ..)| *name);
    assert_eq!(names.collect::<Vec<_>>(), CONTROLS);
}
