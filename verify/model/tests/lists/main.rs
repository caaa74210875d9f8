//! The lists of `atomseq::nonblocking` under shuttle: threads that search, change and go through
//! them, in every order of steps of the small models, and in a great many of the others. The
//! library's own sources, over objects whose exchanges are single steps (the model of `dcas` is
//! another one), and over a pool that gives a node that was freed to the next who asks.
//!
//! Each protection is taken away in turn, and that has to be found out.
#![allow(
    dead_code,
    unused_imports,
    reason = "the library uses more of these files than the models do"
)]

#[path = "../../../../crates/atomseq/src/drops.rs"]
mod drops;
#[path = "../../../../crates/atomseq/src/heap.rs"]
mod heap;
mod models;
mod stand_ins;

/// What the sources of the library are built on. All threads of a model run on one, so what is done
/// between two steps is done at once.
mod sync {
    pub use std::sync::atomic::Ordering;

    /// Others may run.
    pub fn step() {
        shuttle::thread::yield_now();
    }

    /// A word whose every use is a step.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicU64(std::sync::atomic::AtomicU64);

    impl AtomicU64 {
        /// # Safety
        ///
        /// As for the one that it stands for.
        pub unsafe fn from_ptr<'a>(word: *mut u64) -> &'a AtomicU64 {
            // SAFETY: the caller's promise; the same layout.
            unsafe { &*word.cast::<AtomicU64>() }
        }

        pub fn load(&self, order: Ordering) -> u64 {
            step();
            self.0.load(order)
        }

        pub fn store(&self, value: u64, order: Ordering) {
            step();
            self.0.store(value, order);
        }
    }

    /// Memory is sequentially consistent here.
    pub fn fence(_order: Ordering) {}

    /// Looks again at once.
    pub fn spin_loop() {}

    /// The same for all: no model asks which thread has removed something for change.
    pub fn this_thread() -> u64 {
        2
    }
}

/// The library's own sources.
#[path = "."]
mod nonblocking {
    #[path = "../../../../crates/atomseq/src/nonblocking/list/mod.rs"]
    mod list;
    #[path = "../../../../crates/atomseq/src/nonblocking/nodes.rs"]
    mod nodes;
    #[path = "../../../../crates/atomseq/src/nonblocking/one_visitor/mod.rs"]
    mod one_visitor;
    #[path = "../../../../crates/atomseq/src/nonblocking/plain.rs"]
    mod plain;
    #[path = "../../../../crates/atomseq/src/nonblocking/ref_list/mod.rs"]
    mod ref_list;

    pub use list::{CheckedOut, List, Refused};
    pub use one_visitor::OneVisitorList;
    pub use plain::Plain;
    pub use ref_list::{NoMemory, Ref, RefList};

    /// What the link of a removed node holds.
    pub const NO_ADDRESS: u64 = nodes::NO_ADDRESS;
}

use std::sync::Arc;

use shuttle::scheduler::{DfsScheduler, RandomScheduler, Scheduler};
use shuttle::thread;
use verify_model::controls;

use dcas::{Protection, StableWord};
use stand_ins::{dcas, type_stable};

/// In which orders a model is run.
#[derive(Clone, Copy)]
enum Orders {
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
    let model = move || {
        // Not where every order is tried: these come by chance.
        dcas::set(without, matches!(orders, Orders::Many(_)));
        model();
    };
    let scheduler: Box<dyn Scheduler + Send> = match orders {
        Orders::Every => Box::new(DfsScheduler::new(Some(MAX), false)),
        Orders::Many(most) => Box::new(RandomScheduler::new_from_seed(1, most)),
    };
    controls::explore(controls::Orders::by(scheduler), model)
}

fn holds(name: &str, orders: Orders, model: impl Fn() + Send + Sync + 'static) {
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
fn fails(name: &str, reason: &str, without: Protection, model: impl Fn() + Send + Sync + 'static) {
    let (runs, wrong) = explore(Orders::Many(20_000), Some(without), model);
    let wrong = wrong.unwrap_or_else(|| panic!("{name} was not found out in {runs} orders"));
    assert!(wrong.contains(reason), "{name}: another failure: {wrong}");
    println!("model: {name} without {without:?}: found out in order {runs}");
}

// S92 figure 5.7 as printed, to find out what is wrong with it: the link of a deleted node leads
// on to one that was deleted after it, and serves another purpose.

/// Three nodes; a link is a node's number and one, or 0.
#[derive(Default)]
struct Nodes {
    next: [StableWord; 3],
    count: [StableWord; 3],
}

/// `VisitNextNode(current)`.
fn visit_next(nodes: &Nodes, current: usize) -> Option<usize> {
    loop {
        let link = &nodes.next[current];
        let next = link.get();
        if next == 0 {
            return None;
        }
        let count = &nodes.count[next as usize - 1];
        let old = count.get();
        if StableWord::cas2([link, count], [next, old], [next, old + 1]) {
            return Some(next as usize - 1);
        }
    }
}

#[test]
fn a_visitor_of_a_deleted_node_counts_itself_in_elsewhere() {
    let model = || {
        let nodes = Arc::new(Nodes::default());
        // 0 → 1 → 2, each counted once for being in the list, and 1 once more for the visitor.
        nodes.next[0].set(2);
        nodes.next[1].set(3);
        nodes.count.iter().for_each(|count| count.set(1));
        nodes.count[1].set(2);
        let deleter = Arc::clone(&nodes);
        let deleter = thread::spawn(move || {
            // Deletes 1, which its visitor keeps, and then 2, which nobody does: it is deallocated,
            // and serves another purpose, with a count of its own.
            deleter.next[0].set(3);
            deleter.count[1].set(1);
            deleter.next[0].set(0);
            deleter.count[2].set(0);
            deleter.count[2].set(100);
        });
        let visited = visit_next(&nodes, 1);
        deleter.join().unwrap();
        if visited == Some(2) {
            assert_ne!(nodes.count[2].get(), 101, "a guard of what is no node");
        }
    };
    fails(
        "figure 5.7 as printed",
        "a guard of what is no node",
        Protection::RemovedLink,
        model,
    );
}
