//! The turns of threads that grow a shared structure (`growth.rs`) under shuttle: near the limit of
//! memory, no thread reports a lack of memory while another thread has obtained some and is about
//! to publish it. Runs the library's own source.
//!
//! Each protection is removed in turn, by a mutation of the source (`mutations/`), and must be
//! detected.

use std::sync::Arc;

use shuttle::sync::atomic::AtomicUsize;
use shuttle::sync::atomic::Ordering::SeqCst;
use sync::THREAD;
use verify_model::controls;
use verify_model::controls::shuttle_thread as thread;
use verify_model::controls::{Attempt, Orders, all_hold};

/// The modules on which the library's source is built.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use shuttle::thread;
    use std::cell::Cell;

    shuttle::thread_local! {
        /// This thread's number, and how often it has waited.
        pub static THREAD: Cell<(u64, usize)> = Cell::new((0, 0));
    }

    pub const SPINS: usize = 3;

    pub fn spin_loop() {
        thread::yield_now();
    }

    pub fn generation() -> u32 {
        1
    }

    pub fn this_thread() -> u64 {
        THREAD.with(|thread| thread.get().0)
    }

    pub fn pause(_round: u32) {
        THREAD.with(|thread| {
            let (number, pauses) = thread.get();
            thread.set((number, pauses + 1));
        });
        thread::yield_now();
    }

    /// The number of looks.
    pub struct Patience(u32);

    impl Patience {
        pub fn new(looks: u32) -> Patience {
            Patience(looks)
        }

        pub fn sleep(&mut self, _word: &AtomicU32, _expected: u32) -> bool {
            let is_over = self.0 == 0;
            if !is_over {
                self.0 -= 1;
                pause(0);
            }
            !is_over
        }
    }
}

/// The library, unchanged or mutated.
trait Library: 'static {
    type Growth: Send + Sync + 'static;

    fn growth() -> Self::Growth;
    fn find_or_grow(
        growth: &Self::Growth,
        find: &mut dyn FnMut() -> Option<usize>,
        grow: &mut dyn FnMut() -> Option<usize>,
    ) -> Option<usize>;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type Growth = growth::Growth;

            fn growth() -> growth::Growth {
                growth::Growth::new()
            }

            fn find_or_grow(
                growth: &growth::Growth,
                find: &mut dyn FnMut() -> Option<usize>,
                grow: &mut dyn FnMut() -> Option<usize>,
            ) -> Option<usize> {
                growth.find_or_grow(find, grow)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/growth.rs"));

/// Returns all models, each in this number of orders.
fn attempts_in<L: Library>(count: usize) -> impl Iterator<Item = Attempt<Orders>> {
    all::<L>()
        .into_iter()
        .map(move |(name, model)| (name, Orders::drawn(count, 5_000), model))
}

fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    attempts_in::<L>(10_000)
}

/// 1,000 random orders of each model.
#[test]
fn no_thread_is_told_that_there_is_no_memory_while_another_has_it() {
    let attempts = attempts_in::<as_it_is::This>;
    all_hold("growth", "ATOMSEQ_GROWTH_ORDERS", 1_000, attempts);
}

// The models: threads that need the same piece of memory, and a system that has one or two.

struct Structure<L: Library> {
    growth: L::Growth,
    /// The number of the thread that has published a piece, or 0.
    published: AtomicUsize,
    /// The pieces that the system has left, the requests to it, and the refusals.
    left: AtomicUsize,
    asked: AtomicUsize,
    refused: AtomicUsize,
}

impl<L: Library> Structure<L> {
    fn new(left: usize) -> Arc<Structure<L>> {
        Arc::new(Structure {
            growth: L::growth(),
            published: AtomicUsize::new(0),
            left: AtomicUsize::new(left),
            asked: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        })
    }

    fn find(&self) -> Option<usize> {
        Some(self.published.load(SeqCst)).filter(|&number| number > 0)
    }

    fn map(&self) -> bool {
        self.asked.fetch_add(1, SeqCst);
        let one_less = |left: usize| left.checked_sub(1);
        let mapped = self.left.fetch_update(SeqCst, SeqCst, one_less).is_ok();
        self.refused.fetch_add(usize::from(!mapped), SeqCst);
        mapped
    }

    fn publish(&self) -> Option<usize> {
        let number = number() as usize;
        let first = self
            .published
            .compare_exchange(0, number, SeqCst, SeqCst)
            .is_ok();
        self.left.fetch_add(usize::from(!first), SeqCst);
        self.find()
    }

    fn grow(&self) -> Option<usize> {
        self.map().then(|| self.publish())?
    }

    /// Makes a thread that needs a piece grow the structure in this way.
    fn need_by(&self, mut grow: impl FnMut() -> Option<usize>) -> Option<usize> {
        L::find_or_grow(&self.growth, &mut || self.find(), &mut grow)
    }

    fn need(&self) {
        assert!(
            self.need_by(|| self.grow()).is_some(),
            "a lack of memory was reported"
        );
    }

    fn beside(
        self: &Arc<Self>,
        number: u64,
        work: impl FnOnce(&Structure<L>) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let structure = Arc::clone(self);
        thread::spawn(move || {
            be(number);
            work(&structure);
        })
    }
}

fn be(number: u64) {
    THREAD.with(|thread| thread.set((number, 0)));
}

fn number() -> u64 {
    THREAD.with(|thread| thread.get().0)
}

fn pauses() -> usize {
    THREAD.with(|thread| thread.get().1)
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("it does not panic");
    }
}

/// A thread has the only piece, and is stopped until this many others were refused.
fn stopped_until_refused<L: Library>(others: usize) {
    let structure = Structure::<L>::new(1);
    let stopped = structure.beside(100, move |structure| {
        let grow = || {
            let mapped = structure.map();
            while mapped && structure.refused.load(SeqCst) < others {
                thread::yield_now();
            }
            mapped.then(|| structure.publish())?
        };
        _ = structure.need_by(grow);
    });
    let threads = (1..=others as u64).map(|number| {
        structure.beside(number, |structure| {
            let grow = || {
                // Only after the first one.
                while structure.left.load(SeqCst) > 0 {
                    thread::yield_now();
                }
                structure.grow()
            };
            assert!(
                structure.need_by(grow).is_some(),
                "a lack of memory was reported"
            );
        })
    });
    join(threads.collect::<Vec<_>>());
    join([stopped]);
}

/// Returns all models by name.
fn all<L: Library>() -> [(&'static str, fn()); 5] {
    [
        ("three need one, and there is one", || {
            let structure = Structure::<L>::new(1);
            let others = [2, 3].map(|number| structure.beside(number, Structure::need));
            be(1);
            structure.need();
            join(others);
            assert_eq!(structure.asked.load(SeqCst), 1, "copies were asked for");
            // Another thread does not have to wait later.
            structure.published.store(0, SeqCst);
            structure.left.store(1, SeqCst);
            be(4);
            structure.need();
            assert_eq!(pauses(), 0, "it waits for a turn that has ended");
        }),
        (
            "one is stopped before it publishes, and there are two",
            || {
                let structure = Structure::<L>::new(2);
                let stopped = structure.beside(2, |structure| {
                    let grow = || {
                        let mapped = structure.map();
                        // Until another thread continues without it.
                        while mapped && structure.find().is_none() {
                            thread::yield_now();
                        }
                        mapped.then(|| structure.publish())?
                    };
                    assert!(structure.need_by(grow).is_some());
                });
                be(1);
                structure.need();
                join([stopped]);
            },
        ),
        ("one is stopped until another was refused", || {
            stopped_until_refused::<L>(1);
        }),
        ("one is stopped until two others were refused", || {
            stopped_until_refused::<L>(2);
        }),
        ("a handler in the middle of a turn has the only one", || {
            let structure = Structure::<L>::new(1);
            let other = structure.beside(2, Structure::need);
            be(1);
            let grow = || {
                structure.need();
                structure.grow()
            };
            assert!(
                structure.need_by(grow).is_some(),
                "a lack of memory was reported"
            );
            join([other]);
        }),
    ]
}
