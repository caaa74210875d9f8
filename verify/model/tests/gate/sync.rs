//! What the library's locks are built on, here over loom: every order of the threads' steps is tried, and
//! every value that a relaxed load may return.

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{AtomicU32, Ordering};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use loom::sync::{Condvar, Mutex};

/// How often a thread looks again before it parks: as few as make a difference.
pub const SPINS: usize = 1;

/// A thread that waits for a word, by the word's address.
struct Waiter {
    word: usize,
    woken: Arc<Condvar>,
}

loom::lazy_static! {
    /// The kernel's list of waiters, the first to wait first.
    static ref WAITERS: Mutex<Vec<Waiter>> = Mutex::new(Vec::new());
}

/// As the kernel does it: the word is looked at and the waiter listed in one step. Nothing wakes
/// without reason, so that a lost wake-up is a deadlock, which loom reports.
pub fn wait(word: &AtomicU32, expected: u32) {
    let mut waiters = WAITERS.lock().unwrap();
    if word.load(Ordering::Relaxed) != expected {
        return;
    }
    let woken = Arc::new(Condvar::new());
    waiters.push(Waiter {
        word: std::ptr::from_ref(word) as usize,
        woken: woken.clone(),
    });
    while waiters
        .iter()
        .any(|waiter| Arc::ptr_eq(&waiter.woken, &woken))
    {
        waiters = woken.wait(waiters).unwrap();
    }
}

/// Wakes the first of those who wait for the word.
pub fn wake_one(word: &AtomicU32) {
    let mut waiters = WAITERS.lock().unwrap();
    let address = std::ptr::from_ref(word) as usize;
    if let Some(first) = waiters.iter().position(|waiter| waiter.word == address) {
        waiters.remove(first).woken.notify_one();
    }
}

/// Wakes all who wait for the word.
pub fn wake_all(word: &AtomicU32) {
    let mut waiters = WAITERS.lock().unwrap();
    let address = std::ptr::from_ref(word) as usize;
    for waiter in waiters.extract_if(.., |waiter| waiter.word == address) {
        waiter.woken.notify_one();
    }
}

/// What loom found.
pub struct Outcome {
    /// How many executions it tried.
    pub executions: usize,
    /// What was wrong with the last of them.
    pub failure: Option<String>,
}

/// Runs a model in every order of steps with at most so many preemptions.
pub fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) -> Outcome {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    let result = catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            model();
        });
    }));
    let failure = result.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        text.unwrap_or_else(|| "a panic without words".to_owned())
    });
    Outcome {
        executions: executions.load(std::sync::atomic::Ordering::Relaxed),
        failure,
    }
}

/// Asserts that a model holds, and prints in how many executions.
pub fn holds(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let outcome = explore(preemptions, model);
    if let Some(failure) = outcome.failure {
        panic!("{name}, execution {}: {failure}", outcome.executions);
    }
    println!("model: {name}: holds in {} executions", outcome.executions);
    assert!(outcome.executions > 100, "{name}: nothing was tried");
}

/// Asserts that a wrong model is found out, for this reason.
pub fn fails(
    name: &str,
    reason: &str,
    preemptions: usize,
    model: impl Fn() + Send + Sync + 'static,
) {
    let Outcome {
        executions,
        failure,
    } = explore(preemptions, model);
    let Some(failure) = failure else {
        panic!("{name}: not found out in {executions} executions");
    };
    assert!(
        failure.contains(reason),
        "{name}: another failure: {failure}"
    );
    let line = failure.lines().next().unwrap_or_default();
    println!("model: {name}: found out in execution {executions}: {line}");
}
