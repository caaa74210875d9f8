//! The modules on which the library's locks and the models are built, over loom.

pub use loom::sync::Mutex;
pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
pub use loom::thread_local as thread_of_a_model;
pub use verify_model::controls::loom_thread as thread;

#[path = "stand_ins.rs"]
mod stand_ins;

pub use stand_ins::*;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Condvar;
use verify_model::controls::{self, Executions};

/// Returns immediately. Loom's own would let the others run until they had to wait.
pub fn spin_loop() {}

/// A thread that waits for a word, by the word's address.
struct Waiter {
    word: usize,
    woken: Arc<Condvar>,
}

loom::lazy_static! {
    /// The kernel's list of waiters, in the order in which they began to wait.
    static ref WAITERS: Mutex<Vec<Waiter>> = Mutex::new(Vec::new());
}

/// Follows the kernel: the word is compared and the waiter listed in one step. No wake-up is
/// spurious, so a lost one is a deadlock, which loom reports. Returns whether the thread slept, and
/// was woken.
pub fn wait(word: &AtomicU32, expected: u32) -> bool {
    let mut waiters = WAITERS.lock().unwrap();
    if word.load(Ordering::Relaxed) != expected {
        return false;
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
    true
}

/// The same, but the time is up as soon as the thread runs again, woken or not.
pub fn wait_shortly(word: &AtomicU32, expected: u32) -> bool {
    let woken = Arc::new(Condvar::new());
    {
        let mut waiters = WAITERS.lock().unwrap();
        if word.load(Ordering::Relaxed) != expected {
            return false;
        }
        waiters.push(Waiter {
            word: std::ptr::from_ref(word) as usize,
            woken: woken.clone(),
        });
    }
    let mut waiters = WAITERS.lock().unwrap();
    let before = waiters.len();
    waiters.retain(|waiter| !Arc::ptr_eq(&waiter.woken, &woken));
    waiters.len() == before
}

/// Wakes the first waiter of the word; returns false if there is none.
pub fn wake_one(word: &AtomicU32) -> bool {
    let mut waiters = WAITERS.lock().unwrap();
    let address = std::ptr::from_ref(word) as usize;
    let waits = |waiter: &Waiter| waiter.word == address;
    let first = match LAST_FIRST.get() {
        false => waiters.iter().position(waits),
        true => waiters.iter().rposition(waits),
    };
    if let Some(first) = first {
        waiters.remove(first).woken.notify_one();
    }
    first.is_some()
}

/// Wakes this number of waiters at most, in order.
pub fn wake_many(word: &AtomicU32, max: u32) {
    (0..max).take_while(|_| wake_one(word)).for_each(drop);
}

/// Wakes all waiters of the word; returns how many there were.
pub fn wake_all(word: &AtomicU32) -> usize {
    let mut waiters = WAITERS.lock().unwrap();
    let address = std::ptr::from_ref(word) as usize;
    let woken = waiters.extract_if(.., |waiter| waiter.word == address);
    woken.map(|waiter| waiter.woken.notify_one()).count()
}

/// A word that no other thread may touch while a thread changes it: loom reports a race.
pub struct Plain(UnsafeCell<usize>);

// SAFETY: loom panics where two threads touch it at once.
unsafe impl Sync for Plain {}

impl Plain {
    pub fn new(value: usize) -> Plain {
        Plain(UnsafeCell::new(value))
    }

    pub fn get(&self) -> usize {
        // SAFETY: loom panics if another thread may be writing.
        self.0.with(|word| unsafe { *word })
    }

    pub fn set(&self, value: usize) {
        // SAFETY: loom panics if another thread may be reading or writing.
        self.0.with_mut(|word| unsafe { *word = value });
    }

    /// Nothing: loom derives concurrent accesses from the orderings.
    pub fn pause(&self) {}
}

/// The number of the attempt that runs on a CPU; earlier ones have been aborted.
pub struct Current(Mutex<u32>);

impl Current {
    pub fn new() -> Current {
        Current(Mutex::new(0))
    }

    /// Advances to the next number, and returns it.
    pub fn next(&self) -> u32 {
        let mut current = self.0.lock().unwrap();
        *current += 1;
        *current
    }

    /// Changes nothing: orders the CPU's earlier actions before the caller's later ones.
    pub fn barrier(&self) {
        drop(self.0.lock().unwrap());
    }

    /// Performs `step` in the same step in which it verifies that the number has not changed.
    pub fn if_still<R>(&self, attempt: u32, step: impl FnOnce() -> R) -> Option<R> {
        let current = self.0.lock().unwrap();
        (*current == attempt).then(step)
    }
}

/// The extent of a search, as the number of preemptions.
#[derive(Clone, Copy)]
pub enum Size {
    /// Up to four.
    Small,
    /// Up to two.
    Large,
    /// One.
    Huge,
}

/// Returns the number of executions, and the failure in the last one, if any.
fn explore(size: Size, model: impl Fn() + Send + Sync + 'static) -> (usize, Option<String>) {
    let preemptions = match size {
        Size::Small => 4,
        Size::Large => 2,
        Size::Huge => 1,
    };
    let bounded = Executions {
        preemptions: Some(preemptions),
    };
    controls::explore(bounded, model)
}

/// Asserts that a model holds, and prints the number of executions.
pub fn holds(name: &str, size: Size, model: impl Fn() + Send + Sync + 'static) {
    let (executions, failure) = explore(size, model);
    if let Some(failure) = failure {
        panic!("{name}: fails in execution {executions}: {failure}");
    }
    println!("model: loom: {name}: holds in {executions} executions");
    assert!(executions >= 30, "{name}: hardly anything was tried");
}

/// Runs a wrong model whose fault loom may prune; shuttle must find it, and checks the reason.
pub fn fails(name: &str, _reason: &str, size: Size, model: impl Fn() + Send + Sync + 'static) {
    let (executions, failure) = explore(size, model);
    match failure {
        Some(failure) => {
            let line = failure.lines().next().unwrap_or_default();
            println!("model: loom: {name}: detected in execution {executions}: {line}");
        }
        None => println!("model: loom: {name}: not detected in {executions} executions"),
    }
}

/// Asserts that loom finds two unordered accesses to memory in a model.
pub fn races(name: &str, size: Size, model: impl Fn() + Send + Sync + 'static) {
    misses(name, "Causality violation", size, model);
}

/// Asserts that a model fails for this reason.
pub fn misses(name: &str, reason: &str, size: Size, model: impl Fn() + Send + Sync + 'static) {
    let (executions, failure) = explore(size, model);
    let failure =
        failure.unwrap_or_else(|| panic!("{name}: not detected in {executions} executions"));
    assert!(
        failure.contains(reason),
        "{name}: another failure: {failure}"
    );
    let line = failure.lines().next().unwrap_or_default();
    println!("model: loom: {name}: detected in execution {executions}: {line}");
}
