//! Models of the library's own sources, and the controls that they could fail.
//!
//! A model is a small program of a few threads over a part of the library. It must hold for the
//! unchanged sources: an [`Explorer`] runs it in every order of steps, or in many, and it asserts
//! its invariants at the end. `build.rs` writes variants of the sources with one protection removed
//! each (`mutations/`), and adds a control for each by `controls!`: a model must fail for it. This
//! shows that each protection is needed, and that each model detects its absence.
//!
//! Under loom, a load may return every value that the memory model allows, which finds missing
//! orderings; only few threads and steps are affordable. Under shuttle, memory is sequentially
//! consistent, and orders are drawn at random or tried one by one, for protocols of more steps.

use std::any::Any;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use verify_support::number_from_env;

/// A model. It is boxed, so that what loom and shuttle do to run one is compiled once, and not for
/// each model of each test: that took half of the time to build.
pub type Model = Box<dyn Fn() + Send + Sync>;

/// Runs models, in one order after another.
pub trait Explorer {
    /// Runs `model`; panics with the failure in one of the orders.
    fn run(self, model: Model);
}

/// A model by name, and its explorer.
pub type Attempt<E> = (&'static str, E, fn());

/// Returns the number of orders in which a model ran, and the failure in the last one, if any.
pub fn explore(
    explorer: impl Explorer,
    model: impl Fn() + Send + Sync + 'static,
) -> (usize, Option<String>) {
    explore_boxed(explorer, Box::new(model))
}

fn explore_boxed(explorer: impl Explorer, model: Model) -> (usize, Option<String>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&runs);
    let explored = catch_unwind(AssertUnwindSafe(|| {
        explorer.run(Box::new(move || {
            counting.fetch_add(1, Ordering::Relaxed);
            model();
        }));
    }));
    (runs.load(Ordering::Relaxed), explored.err().map(sentence))
}

fn sentence(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(sentence) => *sentence,
        Err(panic) => (*panic.downcast::<&str>().expect("a sentence")).to_owned(),
    }
}

/// Asserts that no order fails; returns the number of orders.
///
/// # Panics
///
/// With the failure.
pub fn holds(what: &str, (name, explorer, model): Attempt<impl Explorer>) -> usize {
    let (runs, wrong) = explore(explorer, model);
    assert_eq!(wrong, None, "{name}, in order {runs}");
    println!("model: {what}: {name}: holds in {runs} orders");
    runs
}

/// Asserts that each model holds in `count` orders, or in as many as the environment variable asks
/// for after changes to the protocol. `attempts` makes the attempts for a number of orders.
///
/// # Panics
///
/// With the failure.
pub fn all_hold<E: Explorer, A: Iterator<Item = Attempt<E>>>(
    what: &str,
    variable: &str,
    count: usize,
    attempts: impl FnOnce(usize) -> A,
) {
    let count = number_from_env(variable, count);
    for model in attempts(count) {
        let runs = holds(what, model);
        assert!(runs >= count, "only {runs} orders");
    }
}

/// Asserts that one of the attempts, which are made one after the other, fails.
///
/// # Panics
///
/// If none fails: the fault was not found.
pub fn is_found_out<E: Explorer>(what: &str, attempts: impl Iterator<Item = Attempt<E>>) {
    let mut all = 0;
    for (name, explorer, model) in attempts {
        let (runs, wrong) = explore(explorer, model);
        all += runs;
        if let Some(wrong) = wrong {
            let line = wrong.lines().next().unwrap_or_default();
            println!("model: {what}: detected by {name}, in order {runs} ({all} in all): {line}");
            return;
        }
    }
    panic!("{what}: not found in {all} orders");
}

/// A test for each variant of these names: one of the attempts that `attempts::<L>()` returns must
/// detect it.
#[macro_export]
macro_rules! controls {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let what = concat!(module_path!(), "::", stringify!($name));
            $crate::controls::is_found_out(what, attempts::<$name::This>());
        }
    )*};
}

/// All orders with up to this number of preemptions, or with any number of them.
pub struct Executions {
    /// The number of preemptions; `None`: any number.
    pub preemptions: Option<usize>,
}

impl Explorer for Executions {
    fn run(self, model: Model) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = self.preemptions;
        builder.max_branches = 10_000;
        builder.check(model);
    }
}

/// The orders of several schedulers, with a limit on the steps of each order.
pub struct Orders {
    /// The schedulers, one after the other.
    pub schedulers: Vec<Box<dyn Scheduler + Send>>,
    /// The limit on steps. It detects threads that wait for an event that never happens.
    pub max_steps: usize,
    /// The stack size of each thread, in bytes.
    pub stack_size: usize,
}

/// Returns schedulers for this many orders: half of them random, half with few changes of thread.
pub fn drawn(count: usize) -> Vec<Box<dyn Scheduler + Send>> {
    vec![
        Box::new(RandomScheduler::new_from_seed(1, count / 2)),
        Box::new(PctScheduler::new_from_seed(1, 4, count / 2)),
    ]
}

impl Orders {
    /// Returns the [drawn] schedulers for this many orders, with a limit on steps.
    pub fn drawn(count: usize, steps: usize) -> Orders {
        Orders {
            schedulers: drawn(count),
            max_steps: steps,
            stack_size: 32 << 10,
        }
    }

    /// Returns the orders of one scheduler, with limits that correct models keep.
    pub fn by(scheduler: Box<dyn Scheduler + Send>) -> Orders {
        Orders {
            schedulers: vec![scheduler],
            max_steps: 1_000_000,
            stack_size: 32 << 10,
        }
    }
}

impl Explorer for Orders {
    fn run(self, model: Model) {
        let model = Arc::new(model);
        for scheduler in self.schedulers {
            let mut config = Config::new();
            config.silence_warnings = true;
            config.failure_persistence = FailurePersistence::None;
            config.max_steps = MaxSteps::FailAfter(self.max_steps);
            config.stack_size = self.stack_size;
            let model = Arc::clone(&model);
            Runner::new(scheduler, config).run(move || model());
        }
    }
}

/// Shuttle's threads. What a thread runs is boxed, so that shuttle's part of it is compiled once,
/// and not for each thread of each model of each mutation: that took a third of the time to build.
pub mod shuttle_thread {
    pub use shuttle::thread::*;

    /// Starts a thread.
    pub fn spawn<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        start(Box::new(work))
    }

    fn start<R: Send + 'static>(work: Box<dyn FnOnce() -> R + Send>) -> JoinHandle<R> {
        shuttle::thread::spawn(work)
    }
}

/// Loom's threads, boxed likewise.
pub mod loom_thread {
    pub use loom::thread::*;

    /// Starts a thread.
    pub fn spawn<R: 'static>(work: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
        start(Box::new(work))
    }

    fn start<R: 'static>(work: Box<dyn FnOnce() -> R>) -> JoinHandle<R> {
        loom::thread::spawn(work)
    }
}

/// A cell whose pointer loom lets only its exclusive owner at that time request.
#[derive(Debug)]
pub struct UnsafeCell<T> {
    value: std::cell::UnsafeCell<T>,
    owner: loom::cell::UnsafeCell<()>,
}

impl<T> UnsafeCell<T> {
    /// Creates a cell with this value.
    pub fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell {
            value: std::cell::UnsafeCell::new(value),
            owner: loom::cell::UnsafeCell::new(()),
        }
    }

    /// Returns the pointer. loom reports two threads that request it unordered.
    pub fn get(&self) -> *mut T {
        self.owner.with_mut(|_| ());
        self.value.get()
    }
}

/// A thread's calls and their results, in its order.
pub type Answers<C, A> = Vec<(C, A)>;

/// Makes these calls of an object under loom, each slice by a thread of its own, the first by the
/// calling one. Returns the results of each.
pub fn answers<Q: 'static, C: Copy + 'static, A: Copy + 'static>(
    object: &loom::sync::Arc<Q>,
    threads: &[&'static [C]],
    call: fn(&Q, C) -> A,
) -> Vec<Answers<C, A>> {
    let all = move |object: &Q, calls: &[C]| -> Answers<C, A> {
        calls
            .iter()
            .map(|&each| (each, call(object, each)))
            .collect()
    };
    let others: Vec<_> = threads[1..]
        .iter()
        .map(|&calls| {
            // If the model fails before this thread begins, loom drops the thread's captured values
            // outside of the model, where these cannot be dropped.
            let object = ManuallyDrop::new(loom::sync::Arc::clone(object));
            loom_thread::spawn(move || {
                let all = all(&object, calls);
                drop(ManuallyDrop::into_inner(object));
                Arc::new(all)
            })
        })
        .collect();
    let mut results = vec![all(object, threads[0])];
    let others = others.into_iter();
    results.extend(others.map(|other| other.join().unwrap().to_vec()));
    results
}

/// Returns whether an order of all calls, in which each thread's calls are in its own order,
/// explains all results, and what is left of a queue in the end. `right` makes a call of a queue
/// that is not shared.
pub fn is_explained<C: Copy, A: Copy + PartialEq, V: Clone + PartialEq>(
    queue: &VecDeque<V>,
    threads: &[&[(C, A)]],
    left: &[V],
    right: &impl Fn(&mut VecDeque<V>, C) -> A,
) -> bool {
    if threads.iter().all(|thread| thread.is_empty()) {
        return queue.iter().eq(left);
    }
    (0..threads.len()).any(|next| {
        let Some((&(each, answer), rest)) = threads[next].split_first() else {
            return false;
        };
        let (mut queue, mut threads) = (queue.clone(), threads.to_vec());
        threads[next] = rest;
        right(&mut queue, each) == answer && is_explained(&queue, &threads, left, right)
    })
}
