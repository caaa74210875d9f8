//! The shelves of the depot of `percpu::Pool` under loom, which tries every value that a relaxed
//! load may return, and reports two unordered accesses to a cell. Runs the library's own source.
//!
//! Each protection is removed in turn, by a mutation of the source (`mutations/`), and must be
//! detected.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use verify_model::controls;
use verify_model::controls::loom_thread as thread;
use verify_model::controls::{Attempt, Executions, holds};

/// The modules on which the library's source is built.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

/// The library, unchanged or mutated.
trait Library: 'static {
    type Shelf: Send + Sync + 'static;

    fn shelf(cells: usize) -> Self::Shelf;
    fn put(shelf: &Self::Shelf, fill: impl FnOnce(usize)) -> bool;
    fn take<R>(shelf: &Self::Shelf, empty: impl FnOnce(usize) -> R) -> Option<R>;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type Shelf = shelf::Shelf;

            fn shelf(cells: usize) -> shelf::Shelf {
                shelf::Shelf::new(cells)
            }

            fn put(shelf: &shelf::Shelf, fill: impl FnOnce(usize)) -> bool {
                shelf.put(fill)
            }

            fn take<R>(shelf: &shelf::Shelf, empty: impl FnOnce(usize) -> R) -> Option<R> {
                shelf.take(empty)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/depot.rs"));

/// Returns all models, without a bound on preemptions.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    let unbounded = || Executions { preemptions: None };
    let models = all::<L>().into_iter();
    models.map(move |(name, model)| (name, unbounded(), model))
}

#[test]
fn a_cell_belongs_to_one_thread_at_a_time_and_a_batch_to_one_place() {
    for model in attempts::<as_it_is::This>() {
        let runs = holds("depot", model);
        assert!(runs > 4, "only {runs} orders");
    }
}

// The models: threads that put and take batches, some of which are interrupted or stopped while
// they own a cell.

/// A shelf with its cells, each of which holds a batch, represented by a number, or 0.
struct Shelf<L: Library> {
    shelf: L::Shelf,
    cells: Vec<UnsafeCell<u64>>,
}

impl<L: Library> Shelf<L> {
    fn new(cells: usize) -> Arc<Shelf<L>> {
        Arc::new(Shelf {
            shelf: L::shelf(cells),
            cells: (0..cells).map(|_| UnsafeCell::new(0)).collect(),
        })
    }

    /// Puts a batch; returns it if there was no room.
    fn put(&self, batch: u64) -> Option<u64> {
        self.put_and(batch, || ())
    }

    /// The same; runs `meanwhile` while this thread owns the cell.
    fn put_and(&self, batch: u64, meanwhile: impl FnOnce()) -> Option<u64> {
        let put = L::put(&self.shelf, |cell| {
            let before = self.replace(cell, batch);
            assert_eq!(before, 0, "a free cell is not empty");
            meanwhile();
        });
        (!put).then_some(batch)
    }

    fn take(&self) -> Option<u64> {
        self.take_and(|| ())
    }

    fn take_and(&self, meanwhile: impl FnOnce()) -> Option<u64> {
        L::take(&self.shelf, |cell| {
            let batch = self.replace(cell, 0);
            assert_ne!(batch, 0, "a full cell is empty");
            meanwhile();
            batch
        })
    }

    fn replace(&self, cell: usize, batch: u64) -> u64 {
        // SAFETY: loom reports any other access to the cell at that time.
        self.cells[cell].with_mut(|place| unsafe { place.replace(batch) })
    }
}

/// Asserts that the batches which threads are left with and those on the shelf are `1..=all`, once
/// each.
fn assert_batches<L: Library>(
    shelf: &Shelf<L>,
    left: impl IntoIterator<Item = Option<u64>>,
    all: u64,
) {
    let mut batches: Vec<u64> = left.into_iter().flatten().collect();
    batches.extend(std::iter::from_fn(|| shelf.take()));
    batches.sort_unstable();
    assert!(batches.iter().copied().eq(1..=all), "{batches:?} are left");
}

/// Runs another thread's actions beside this one's; returns what both are left with.
fn beside<const N: usize, const M: usize>(
    other: impl FnOnce() -> [Option<u64>; N] + 'static,
    this: impl FnOnce() -> [Option<u64>; M],
) -> Vec<Option<u64>> {
    let other = thread::spawn(other);
    let mut left = this().to_vec();
    left.extend(other.join().expect("it does not panic"));
    left
}

/// Returns all models by name, the largest last.
fn all<L: Library>() -> [(&'static str, fn()); 7] {
    [
        ("one puts and the other takes, twice", || {
            let shelf = Shelf::<L>::new(1);
            let puts = Arc::clone(&shelf);
            let left = beside(
                move || [puts.put(1), puts.put(2)],
                || [shelf.take(), shelf.take()],
            );
            assert_batches(&shelf, left, 2);
        }),
        ("both put, and there is room for one", || {
            let shelf = Shelf::<L>::new(1);
            let other = Arc::clone(&shelf);
            let left = beside(move || [other.put(1)], || [shelf.put(2)]);
            assert_eq!(left.iter().flatten().count(), 1, "{left:?}");
            assert_batches(&shelf, left, 2);
        }),
        ("both take, and there is one", || {
            let shelf = Shelf::<L>::new(2);
            assert_eq!(shelf.put(1), None);
            let other = Arc::clone(&shelf);
            let left = beside(move || [other.take()], || [shelf.take()]);
            assert_eq!(left.iter().flatten().count(), 1, "{left:?}");
            assert_batches(&shelf, left, 1);
        }),
        ("both exchange, and there is room for two", || {
            let shelf = Shelf::<L>::new(2);
            let other = Arc::clone(&shelf);
            let left = beside(
                move || [other.put(1), other.take()],
                || [shelf.put(2), shelf.take()],
            );
            assert_batches(&shelf, left, 2);
        }),
        ("a handler interrupts while a cell is filled", || {
            let shelf = Shelf::<L>::new(2);
            let other = Arc::clone(&shelf);
            let interrupted = move || {
                let (mut put, mut taken) = (None, None);
                let left = other.put_and(1, || {
                    put = other.put(2);
                    taken = other.take();
                });
                [left, put, taken]
            };
            let left = beside(interrupted, || [shelf.take(), shelf.put(3)]);
            assert_batches(&shelf, left, 3);
        }),
        ("a handler interrupts while a cell is emptied", || {
            let shelf = Shelf::<L>::new(2);
            assert_eq!(shelf.put(1), None);
            let other = Arc::clone(&shelf);
            let interrupted = move || {
                let mut put = None;
                let taken = other.take_and(|| put = other.put(2));
                [taken, put]
            };
            let left = beside(interrupted, || [shelf.put(3), shelf.take()]);
            assert_batches(&shelf, left, 3);
        }),
        ("three threads, room for one", || {
            let shelf = Shelf::<L>::new(1);
            let (second, third) = (Arc::clone(&shelf), Arc::clone(&shelf));
            let second = thread::spawn(move || [second.put(1), second.take()]);
            let third = thread::spawn(move || [third.put(2)]);
            let mut left = vec![shelf.take()];
            left.extend(second.join().expect("it does not panic"));
            left.extend(third.join().expect("it does not panic"));
            assert_batches(&shelf, left, 2);
        }),
    ]
}
