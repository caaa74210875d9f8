//! The linked structures of `atomseq::nonblocking` under shuttle: the lists, the priority queue,
//! the page map and the server. Threads search, change and iterate, in every order of steps of the
//! small models, and in many of the others. Runs the library's own sources, over objects whose
//! exchanges are single steps (`dcas` has a model of its own), and over a pool that reuses a freed
//! node for the next allocation.
//!
//! Each protection is removed in turn, and that must be detected.
#![allow(
    dead_code,
    unused_imports,
    reason = "the library uses more of these files than the models do"
)]

mod cached;
#[path = "../../../../crates/atomseq/src/drops.rs"]
mod drops;
#[path = "../../../../crates/atomseq/src/heap.rs"]
mod heap;
mod models;
#[path = "../../../../crates/atomseq/src/or_panic.rs"]
mod or_panic;
mod others;
mod stand_ins;

/// The modules on which the library's sources are built. All threads of a model run on one
/// operating-system thread, so everything between two steps is atomic.
mod sync {
    pub use std::sync::atomic::{AtomicPtr, Ordering};

    /// Lets other threads run.
    pub fn step() {
        shuttle::thread::yield_now();
    }

    /// A word whose every access is a step.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub struct AtomicU64(std::sync::atomic::AtomicU64);

    impl AtomicU64 {
        /// # Safety
        ///
        /// The contract of the function that it replaces.
        pub unsafe fn from_ptr<'a>(word: *mut u64) -> &'a AtomicU64 {
            // SAFETY: the caller's promise; the same layout.
            unsafe { &*word.cast::<AtomicU64>() }
        }

        pub fn load(&self, order: Ordering) -> u64 {
            step();
            self.0.load(order)
        }

        pub const fn new(value: u64) -> AtomicU64 {
            AtomicU64(std::sync::atomic::AtomicU64::new(value))
        }

        pub fn store(&self, value: u64, order: Ordering) {
            step();
            self.0.store(value, order);
        }

        pub fn compare_exchange(
            &self,
            old: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            step();
            self.0.compare_exchange(old, new, success, failure)
        }
    }

    /// Memory is sequentially consistent here.
    pub fn fence(_order: Ordering) {}

    /// Returns immediately.
    pub fn spin_loop() {}

    std::thread_local!(static THREAD: std::cell::Cell<u64> = const { std::cell::Cell::new(2) });

    /// Returns the number that a model has set last: the same for all threads, unless a model asks
    /// which thread has done something.
    pub fn this_thread() -> u64 {
        THREAD.get()
    }

    /// Sets the number of the thread that runs until the next step.
    pub fn set_this_thread(number: u64) {
        THREAD.set(number);
    }
}

/// The library's own sources.
#[path = "."]
mod nonblocking {
    #[path = "../../../../crates/atomseq/src/nonblocking/hash_map/error.rs"]
    mod error;
    #[path = "../../../../crates/atomseq/src/nonblocking/list/mod.rs"]
    mod list;
    #[path = "../../../../crates/atomseq/src/nonblocking/list_cache/mod.rs"]
    mod list_cache;
    #[path = "../../../../crates/atomseq/src/nonblocking/nodes.rs"]
    mod nodes;
    #[path = "../../../../crates/atomseq/src/nonblocking/one_visitor/mod.rs"]
    mod one_visitor;
    #[path = "../../../../crates/atomseq/src/nonblocking/page_map/mod.rs"]
    mod page_map;
    #[path = "../../../../crates/atomseq/src/nonblocking/plain.rs"]
    mod plain;
    #[path = "../../../../crates/atomseq/src/nonblocking/priority_queue/mod.rs"]
    mod priority_queue;
    #[path = "../../../../crates/atomseq/src/nonblocking/ref_list/mod.rs"]
    mod ref_list;
    #[path = "../../../../crates/atomseq/src/nonblocking/server/mod.rs"]
    mod server;

    pub use error::NotInserted;
    pub use list::{CheckedOut, List, Refused};
    pub use list_cache::{ListCache, Member};
    pub use one_visitor::OneVisitorList;
    pub use page_map::PageMap;
    pub use plain::Plain;
    pub use priority_queue::{Handle, PriorityQueue};
    pub use ref_list::{NoMemory, Ref, RefList};
    pub use server::{Operation, Server};

    /// The mark of a removed node.
    pub const REMOVED: u64 = ref_list::REMOVED;
}

use std::sync::Arc;

use shuttle::scheduler::{DfsScheduler, RandomScheduler, Scheduler};
use verify_model::controls;
use verify_model::controls::shuttle_thread as thread;
use verify_support::number_from_env;

use dcas::{Protection, StableWord};
use stand_ins::{dcas, mappings, platform, type_stable};

/// The orders in which a model is run.
#[derive(Clone, Copy)]
enum Orders {
    Every,
    /// This many random ones; `ATOMSEQ_MODEL_TIMES` times as many if that is set.
    Many(usize),
}

/// More orders than any model has that is run in every order, so that a grown model is noticed.
const MAX: usize = 1_000_000;

/// Returns the number of orders, and the failure in one of them, if any.
fn explore(
    orders: Orders,
    without: Option<Protection>,
    model: impl Fn() + Send + Sync + 'static,
) -> (usize, Option<String>) {
    let model = move || {
        // Not where every order is tried: these interruptions are random.
        dcas::set(without, matches!(orders, Orders::Many(_)));
        model();
    };
    let scheduler: Box<dyn Scheduler + Send> = match orders {
        Orders::Every => Box::new(DfsScheduler::new(Some(MAX), false)),
        Orders::Many(count) => Box::new(RandomScheduler::new_from_seed(1, count)),
    };
    controls::explore(controls::Orders::by(scheduler), model)
}

fn holds(name: &str, orders: Orders, model: impl Fn() + Send + Sync + 'static) {
    let orders = match orders {
        Orders::Every => orders,
        Orders::Many(count) => Orders::Many(count * number_from_env("ATOMSEQ_MODEL_TIMES", 1)),
    };
    let (runs, wrong) = explore(orders, None, model);
    assert_eq!(wrong, None, "{name}, in run {runs}");
    println!("model: {name}: holds in {runs} orders");
    assert!(runs > 20, "only {runs} orders");
    assert!(runs < MAX, "{name}: not every order was tried");
}

/// Asserts that a model without a protection fails for this reason.
fn fails(name: &str, reason: &str, without: Protection, model: impl Fn() + Send + Sync + 'static) {
    let (runs, wrong) = explore(Orders::Many(20_000), Some(without), model);
    let wrong = wrong.unwrap_or_else(|| panic!("{name} was not detected in {runs} orders"));
    assert!(wrong.contains(reason), "{name}: another failure: {wrong}");
    println!("model: {name} without {without:?}: detected in order {runs}");
}

// S92 figure 5.7 as printed, to demonstrate its fault: the link of a deleted node leads to one that
// was deleted after it and has been reused for another purpose.

/// Three nodes; a link is a node's number plus one, or 0.
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
        // 0 → 1 → 2, each counted once for being in the list, and 1 a second time for the visitor.
        nodes.next[0].set(2);
        nodes.next[1].set(3);
        nodes.count.iter().for_each(|count| count.set(1));
        nodes.count[1].set(2);
        let deleter = Arc::clone(&nodes);
        let deleter = thread::spawn(move || {
            // Deletes 1, which its visitor keeps, and then 2, which has no visitor: it is
            // deallocated and reused for another purpose, with a count of its own.
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
        Protection::RemovedMark,
        model,
    );
}
