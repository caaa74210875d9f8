//! Running a model in many orders.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::scheduler::{DfsScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use crate::dcas::{self, Protection};

/// In which orders a model is run.
#[derive(Clone, Copy)]
pub enum Orders {
    Every,
    /// So many, drawn at random; `ATOMSEQ_MODEL_TIMES` times as many if that is set.
    Many(usize),
}

/// More than any model has that is to be run in every order, so that one that has grown is noticed.
const MAX: usize = 1_000_000;

/// Returns in how many orders it ran, and what went wrong in one of them.
fn explore(
    orders: Orders,
    without: Option<Protection>,
    model: impl Fn() + Send + Sync + 'static,
) -> (usize, Option<String>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&runs);
    let model = move || {
        counting.fetch_add(1, Ordering::Relaxed);
        // Not where every order is tried: these come by chance.
        dcas::set(without, matches!(orders, Orders::Many(_)));
        model();
    };
    let mut config = Config::new();
    config.silence_warnings = true;
    config.failure_persistence = FailurePersistence::None;
    let explored = catch_unwind(AssertUnwindSafe(|| match orders {
        Orders::Every => Runner::new(DfsScheduler::new(Some(MAX), false), config).run(model),
        Orders::Many(most) => {
            Runner::new(RandomScheduler::new_from_seed(1, most), config).run(model)
        }
    }));
    let what = |panic: Box<dyn std::any::Any + Send>| match panic.downcast::<String>() {
        Ok(sentence) => *sentence,
        Err(panic) => (*panic.downcast::<&str>().expect("a sentence")).to_owned(),
    };
    (runs.load(Ordering::Relaxed), explored.err().map(what))
}

pub fn holds(name: &str, orders: Orders, model: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("ATOMSEQ_MODEL_TIMES").ok();
    let times = times.map_or(1, |times| times.parse().expect("a number"));
    let orders = match orders {
        Orders::Every => orders,
        Orders::Many(most) => Orders::Many(most * times),
    };
    let (runs, wrong) = explore(orders, None, model);
    assert_eq!(wrong, None, "{name}, in run {runs}");
    println!("model: {name}: holds in {runs} orders");
    assert!(runs > 20, "only {runs} orders");
    assert!(runs < MAX, "{name}: not every order was tried");
}

/// Asserts that without a protection it is found out, for this reason.
pub fn fails(
    name: &str,
    reason: &str,
    without: Protection,
    model: impl Fn() + Send + Sync + 'static,
) {
    let (runs, wrong) = explore(Orders::Many(20_000), Some(without), model);
    let wrong = wrong.unwrap_or_else(|| panic!("{name} was not found out in {runs} orders"));
    assert!(wrong.contains(reason), "{name}: another failure: {wrong}");
    println!("model: {name} without {without:?}: found out in order {runs}");
}
