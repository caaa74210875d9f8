//! The pages of `atomseq::type_stable` under shuttle: threads take and put descriptors, and record
//! where free ones are, in every order of steps of a small model, and in many of the others. Also
//! trims and audits, which ask how long a page was free and a descriptor unclaimed, on a clock that
//! is stepped as well; and searches for a vacant place. Runs the library's own sources over atomics
//! that shuttle steps. Memory is sequentially consistent here, as their orderings require.
//!
//! Each protection is removed in turn, and that must be detected.
#![allow(
    dead_code,
    reason = "the library uses more of these files than the models do"
)]

use std::sync::Arc;

use shuttle::scheduler::{DfsScheduler, RandomScheduler, Scheduler};
use verify_model::controls;

use sync::{AtomicU64, Ordering::SeqCst};
use vacancies::Vacancies;

#[path = "../../../../crates/atomseq/src/type_stable/free.rs"]
mod free;
#[path = "../../../../crates/atomseq/src/type_stable/hints.rs"]
mod hints;
mod models;
#[path = "../../../../crates/atomseq/src/type_stable/moment.rs"]
mod moment;
#[path = "../../../../crates/atomseq/src/type_stable/seen.rs"]
mod seen;
mod times;
#[path = "../../../../crates/atomseq/src/type_stable/unclaimed.rs"]
mod unclaimed;
#[path = "../../../../crates/atomseq/src/type_stable/vacancies.rs"]
mod vacancies;

/// The modules on which the library's sources are built.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// The orders in which a model is run.
#[derive(Clone, Copy)]
enum Orders {
    Every,
    /// This many random ones.
    Many(usize),
}

/// Runs a model; returns the number of orders, and the failure in one of them, if any.
fn explore(orders: Orders, model: impl Fn() + Send + Sync + 'static) -> (usize, Option<String>) {
    let scheduler: Box<dyn Scheduler + Send> = match orders {
        Orders::Every => Box::new(DfsScheduler::new(None, false)),
        // The same in each run: a mistake that few orders show is found, or is not.
        Orders::Many(count) => Box::new(RandomScheduler::new_from_seed(1, count)),
    };
    controls::explore(controls::Orders::by(scheduler), model)
}

fn holds(name: &str, orders: Orders, model: impl Fn() + Send + Sync + 'static) {
    let (runs, wrong) = explore(orders, model);
    assert_eq!(wrong, None, "{name}, in run {runs}");
    println!("model: {name}: holds in {runs} orders");
    assert!(runs > 20, "only {runs} orders");
}

fn fails(name: &str, orders: Orders, model: impl Fn() + Send + Sync + 'static) {
    let (runs, wrong) = explore(orders, model);
    assert!(wrong.is_some(), "{name} was not detected in {runs} orders");
    println!("model: {name}: detected in order {runs}");
}

// A search among places that another thread takes and vacates, one at a time: one place is vacant
// at every moment, so no search may fail.

/// How a place is vacated.
#[derive(Clone, Copy)]
enum Report {
    After,
    Before,
    Never,
}

/// One place more than there are threads that own one.
struct Places<const N: usize> {
    taken: [AtomicU64; N],
    vacancies: Vacancies,
}

impl<const N: usize> Places<N> {
    /// Returns places of which all but the last are taken.
    fn new() -> Arc<Places<N>> {
        Arc::new(Places {
            taken: std::array::from_fn(|place| AtomicU64::new(u64::from(place < N - 1))),
            vacancies: Vacancies::new(),
        })
    }

    fn take(&self, place: usize) -> bool {
        let taken = self.taken[place].compare_exchange(0, 1, SeqCst, SeqCst);
        taken.is_ok()
    }

    fn give_up(&self, place: usize, report: Report) {
        if let Report::Before = report {
            self.vacancies.report();
        }
        self.taken[place].store(0, SeqCst);
        if let Report::After = report {
            self.vacancies.report();
        }
    }

    /// Follows `Cache::take`.
    fn search(&self) -> Option<usize> {
        let mut sought = None;
        loop {
            if let Some(place) = (0..N).find(|&place| self.take(place)) {
                return Some(place);
            }
            let before = sought.replace(self.vacancies.seek());
            if before == sought {
                return None;
            }
        }
    }
}

/// Another thread owns place 0, and moves between that and place 1.
fn to_and_fro(moves: usize, report: Report) {
    let places = Places::<2>::new();
    let others = Arc::clone(&places);
    let other = shuttle::thread::spawn(move || {
        for number in 0..moves {
            let (from, to) = (number % 2, (number + 1) % 2);
            others.give_up(from, report);
            if !others.take(to) {
                // The search has it.
                return;
            }
        }
    });
    let found = places.search();
    assert!(found.is_some(), "a search in vain");
    other.join().unwrap();
}

/// Two threads, each of which owns at most one of two places, and searches for the next one.
fn two_searches(rounds: usize, report: Report) {
    let places = Places::<2>::new();
    // Both are vacant.
    places.give_up(0, Report::Never);
    let threads = [0, 1].map(|_| {
        let places = Arc::clone(&places);
        shuttle::thread::spawn(move || {
            for _ in 0..rounds {
                let place = places.search().expect("a search in vain");
                places.give_up(place, report);
            }
        })
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn no_search_is_in_vain_while_a_place_is_vacant() {
    holds("4 moves", Orders::Every, || to_and_fro(4, Report::After));
    holds("8 moves", Orders::Many(100_000), || {
        to_and_fro(8, Report::After)
    });
    let searches = || two_searches(4, Report::After);
    holds("two searches", Orders::Many(100_000), searches);
}

#[test]
fn a_report_that_is_missing_or_early_is_found_out() {
    fails("no report", Orders::Every, || to_and_fro(4, Report::Never));
    fails("early report", Orders::Every, || {
        to_and_fro(4, Report::Before)
    });
}
