//! The models: threads that need the same piece of memory, and a system that has one or two.

use std::sync::Arc;

use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::thread;

use crate::Library;
use crate::sync::THREAD;

struct Structure<L: Library> {
    growth: L::Growth,
    /// The number of the thread that has published a piece; 0: there is none.
    published: AtomicUsize,
    /// How many pieces the system has left, how often it was asked, and how often it has refused.
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

    /// What a thread does that needs a piece, if it grows the structure in this way.
    fn need_by(&self, mut grow: impl FnMut() -> Option<usize>) -> Option<usize> {
        L::find_or_grow(&self.growth, &mut || self.find(), &mut grow)
    }

    fn need(&self) {
        assert!(
            self.need_by(|| self.grow()).is_some(),
            "told that there is no memory"
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

/// A thread has the only piece, and is stopped until as many others as given were refused.
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
                "told that there is no memory"
            );
        })
    });
    join(threads.collect::<Vec<_>>());
    join([stopped]);
}

/// All of them by name.
pub fn all<L: Library>() -> [(&'static str, fn()); 5] {
    [
        ("three need one, and there is one", || {
            let structure = Structure::<L>::new(1);
            let others = [2, 3].map(|number| structure.beside(number, Structure::need));
            be(1);
            structure.need();
            join(others);
            assert_eq!(structure.asked.load(SeqCst), 1, "copies were asked for");
            // Another thread is not kept waiting later.
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
                        // Until another thread goes on without it.
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
                "told that there is no memory"
            );
            join([other]);
        }),
    ]
}
