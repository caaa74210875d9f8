//! The modules on which the library's locks and the models are built, over shuttle.

pub use shuttle::sync::Mutex;
pub use shuttle::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
pub use shuttle::thread_local as thread_of_a_model;
pub use verify_model::controls::shuttle_thread as thread;

#[path = "stand_ins.rs"]
mod stand_ins;

pub use stand_ins::*;

use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicUsize as Count;

use shuttle::scheduler::{DfsScheduler, PctScheduler, Scheduler};
use shuttle::sync::mpsc::{Sender, channel};
use verify_model::controls::{self, Orders};

/// Returns immediately.
pub fn spin_loop() {}

/// A thread that waits for a word, by the word's address.
struct Waiter {
    word: usize,
    number: usize,
    /// None for a thread that does not wait to be woken.
    wake: Option<Sender<()>>,
}

thread_local! {
    /// The number of waits that have begun.
    static WAITS: Cell<usize> = const { Cell::new(0) };
}

impl Waiter {
    fn new(word: &AtomicU32, wake: Option<Sender<()>>) -> Waiter {
        let number = WAITS.get();
        WAITS.set(number + 1);
        Waiter {
            word: std::ptr::from_ref(word) as usize,
            number,
            wake,
        }
    }
}

thread_local! {
    /// The kernel's list of waiters, in the order in which they began to wait. All of a model's
    /// threads run on one operating-system thread.
    static WAITERS: RefCell<Vec<Waiter>> = const { RefCell::new(Vec::new()) };
}

/// Follows the kernel: the word is compared and the waiter listed in one step. No wake-up is
/// spurious, so a lost one is a deadlock, which shuttle reports. Returns whether the thread slept,
/// and was woken.
pub fn wait(word: &AtomicU32, expected: u32) -> bool {
    let (wake, woken) = channel();
    if word.load(Ordering::SeqCst) != expected {
        return false;
    }
    let waiter = Waiter::new(word, Some(wake));
    WAITERS.with_borrow_mut(|waiters| waiters.push(waiter));
    woken.recv().expect("the list keeps the sender");
    true
}

/// The same, but the time is up as soon as the thread runs again, woken or not.
pub fn wait_shortly(word: &AtomicU32, expected: u32) -> bool {
    if word.load(Ordering::SeqCst) != expected {
        return false;
    }
    let waiter = Waiter::new(word, None);
    let number = waiter.number;
    WAITERS.with_borrow_mut(|waiters| waiters.push(waiter));
    // Lets other threads run, including those that yield before they wake a waiter.
    thread::yield_now();
    thread::yield_now();
    WAITERS.with_borrow_mut(|waiters| {
        let before = waiters.len();
        waiters.retain(|waiter| waiter.number != number);
        waiters.len() == before
    })
}

/// Wakes the first waiter of the word; returns false if there is none.
pub fn wake_one(word: &AtomicU32) -> bool {
    wake(word, 1) > 0
}

/// Wakes this number of waiters at most, in order.
pub fn wake_many(word: &AtomicU32, max: u32) {
    wake(word, max as usize);
}

/// Wakes all waiters of the word; returns how many there were.
pub fn wake_all(word: &AtomicU32) -> usize {
    wake(word, usize::MAX)
}

fn wake(word: &AtomicU32, max: usize) -> usize {
    // Other threads may run between the store that requires it and the wake-up.
    thread::yield_now();
    let address = std::ptr::from_ref(word) as usize;
    let woken: Vec<Waiter> = WAITERS.with_borrow_mut(|waiters| {
        let waiting = waiters.iter().filter(|waiter| waiter.word == address);
        let numbers = waiting.map(|waiter| waiter.number);
        let chosen: Vec<usize> = match LAST_FIRST.get() {
            false => numbers.take(max).collect(),
            true => numbers.rev().take(max).collect(),
        };
        let woken = waiters.extract_if(.., |waiter| chosen.contains(&waiter.number));
        woken.collect()
    });
    let count = woken.len();
    for wake in woken.into_iter().filter_map(|waiter| waiter.wake) {
        wake.send(()).expect("the waiter waits");
    }
    count
}

/// A word. Other threads may run at a `pause`, and not in between.
pub struct Plain {
    word: Count,
    pause: AtomicU32,
}

impl Plain {
    pub fn new(value: usize) -> Plain {
        Plain {
            word: Count::new(value),
            pause: AtomicU32::new(0),
        }
    }

    pub fn get(&self) -> usize {
        self.word.load(Ordering::SeqCst)
    }

    pub fn set(&self, value: usize) {
        self.word.store(value, Ordering::SeqCst);
    }

    pub fn pause(&self) {
        self.pause.load(Ordering::SeqCst);
    }
}

/// The number of the attempt that runs on a CPU; earlier ones have been aborted.
pub struct Current(AtomicU32);

impl Current {
    pub fn new() -> Current {
        Current(AtomicU32::new(0))
    }

    /// Advances to the next number, and returns it.
    pub fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Changes nothing: orders the CPU's earlier actions before the caller's later ones.
    pub fn barrier(&self) {
        self.0.load(Ordering::SeqCst);
    }

    /// Performs `step` in the same step in which it verifies that the number has not changed.
    pub fn if_still<R>(&self, attempt: u32, step: impl FnOnce() -> R) -> Option<R> {
        (self.0.load(Ordering::SeqCst) == attempt).then(step)
    }
}

/// The extent of a search.
#[derive(Clone, Copy)]
pub enum Size {
    /// Every order of steps.
    Small,
    /// This number of orders, by the strategy that finds most for this many changes of thread
    /// (PCT).
    Large,
    /// The same.
    Huge,
}

/// More orders than any small model has, so that a grown model is noticed.
const MAX: usize = 2_000_000;
const LARGE: usize = 5_000;
const CHANGES: usize = 4;

/// Returns the number of executions, and the failure in the last one, if any.
fn explore(size: Size, model: impl Fn() + Send + Sync + 'static) -> (usize, Option<String>) {
    let scheduler: Box<dyn Scheduler + Send> = match size {
        Size::Small => Box::new(DfsScheduler::new(Some(MAX), false)),
        Size::Large | Size::Huge => Box::new(PctScheduler::new_from_seed(1, CHANGES, LARGE)),
    };
    controls::explore(Orders::by(scheduler), move || {
        // The remains of a failed execution, none of which may run any more.
        std::mem::forget(WAITERS.take());
        model();
    })
}

/// Asserts that a model holds, and prints the number of executions.
pub fn holds(name: &str, size: Size, model: impl Fn() + Send + Sync + 'static) {
    let (executions, failure) = explore(size, model);
    if let Some(failure) = failure {
        panic!("{name}: fails in execution {executions}: {failure}");
    }
    let all = match size {
        Size::Small => ", all there are",
        Size::Large | Size::Huge => "",
    };
    println!("model: shuttle: {name}: holds in {executions} executions{all}");
    assert!(executions >= 30, "{name}: hardly anything was tried");
    assert!(executions < MAX, "{name}: not everything was tried");
}

/// Asserts that a wrong model fails for this reason.
pub fn fails(name: &str, reason: &str, size: Size, model: impl Fn() + Send + Sync + 'static) {
    let (executions, failure) = explore(size, model);
    let failure =
        failure.unwrap_or_else(|| panic!("{name}: not detected in {executions} executions"));
    assert!(
        failure.contains(reason),
        "{name}: another failure: {failure}"
    );
    let line = failure.lines().next().unwrap_or_default();
    println!("model: shuttle: {name}: detected in execution {executions}: {line}");
}
