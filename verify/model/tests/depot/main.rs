//! The shelves of the depot of `percpu::Pool` under loom: every value that a relaxed load may
//! return, and a report wherever two threads may touch a cell with nothing to order them. The
//! library's own source.
//!
//! Each protection is taken away in turn, by a change of the source (`mutations.rs`), and that has
//! to be found out.

#[macro_use]
#[path = "../controls/mod.rs"]
mod controls;
#[path = "../controls/loom.rs"]
mod explorer;
mod models;

/// What the source of the library is built on.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
}

use controls::Attempt;
use explorer::Executions;

/// The library, as it is or with something wrong.
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

/// All models, with no bound on preemptions.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Executions>> {
    let all = || Executions { preemptions: None };
    let models = models::all::<L>().into_iter();
    models.map(move |(name, model)| (name, all(), model))
}

#[test]
fn a_cell_belongs_to_one_thread_at_a_time_and_a_batch_to_one_place() {
    for model in attempts::<as_it_is::This>() {
        let runs = controls::holds("depot", model);
        assert!(runs > 4, "only {runs} orders");
    }
}
