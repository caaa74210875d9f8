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
mod vacant;

/// What the sources of the library are built on.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::Runner;
use shuttle::scheduler::{DfsScheduler, RandomScheduler};

/// In which orders a model is run.
#[derive(Clone, Copy)]
enum Orders {
    Every,
    /// So many, drawn at random.
    Many(usize),
}

/// Runs a model; returns in how many orders, and what went wrong in one of them.
fn explore(orders: Orders, model: impl Fn() + Send + Sync + 'static) -> (usize, Option<String>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&runs);
    let model = move || {
        counting.fetch_add(1, Ordering::Relaxed);
        model();
    };
    let config = shuttle::Config::new();
    let explored = catch_unwind(AssertUnwindSafe(|| match orders {
        Orders::Every => Runner::new(DfsScheduler::new(None, false), config).run(model),
        Orders::Many(most) => Runner::new(RandomScheduler::new(most), config).run(model),
    }));
    let what = |panic: Box<dyn std::any::Any + Send>| match panic.downcast::<String>() {
        Ok(sentence) => *sentence,
        Err(panic) => (*panic.downcast::<&str>().expect("a sentence")).to_owned(),
    };
    (runs.load(Ordering::Relaxed), explored.err().map(what))
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
