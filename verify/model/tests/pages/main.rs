//! The pages of `atomseq::type_stable` under shuttle: threads that take and put descriptors, and
//! note where there are any, in every order of steps of a small model, and in a great many of the
//! others; trims and audits that ask how long a page was free, and a descriptor unclaimed, on a
//! clock that is stepped as well; searches for a vacant place. The library's own sources, over
//! atomics that shuttle steps. Memory is sequentially consistent here, which is what their
//! orderings say.
//!
//! Each protection is taken away in turn, and that has to be found out.
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

/// What the sources of the library are built on.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// In which orders a model is run.
#[derive(Clone, Copy)]
enum Orders {
    Every,
    /// So many, drawn at random.
    Many(usize),
}

/// Runs a model; returns in how many orders, and what went wrong in one of them.
fn explore(orders: Orders, model: impl Fn() + Send + Sync + 'static) -> (usize, Option<String>) {
    let scheduler: Box<dyn Scheduler + Send> = match orders {
        Orders::Every => Box::new(DfsScheduler::new(None, false)),
        Orders::Many(most) => Box::new(RandomScheduler::new(most)),
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
    assert!(wrong.is_some(), "{name} was not found out in {runs} orders");
    println!("model: {name}: found out in order {runs}");
}

// A search of places that another thread takes and gives up, one at a time: one place is vacant at
// every moment, so no search may end in vain.

/// How a place is given up.
#[derive(Clone, Copy)]
enum Report {
    After,
    Before,
    Never,
}

/// One place more than there are threads that have one.
struct Places<const N: usize> {
    taken: [AtomicU64; N],
    vacancies: Vacancies,
}

impl<const N: usize> Places<N> {
    /// All but the last are taken.
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

    /// As `Cache::take`.
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

/// Another thread has place 0, and goes to and fro between that and place 1.
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

/// Two threads, each of which has at most one of two places, and searches for the next one.
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
