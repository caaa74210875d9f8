//! Structures of one thread, and locks whose mechanism is atomic against the handlers of one
//! thread, in the hands of another thread.

use std::sync::Arc;

use atomseq::local::{Counter, Map, Queue, Ring, Stack, per_thread};
use atomseq::mutex::{Counted, Masked, MutexBy, Restarting, Rolling, SpinLockBy};

fn sent_counter() {
    let counter = Counter::new();
    std::thread::spawn(move || counter.increment());
}

/// An iterator borrows the structure, and stays on its thread.
fn sent_drain() {
    let queue: Queue<u32, 4> = Queue::new();
    let drain = queue.drain();
    std::thread::scope(|scope| {
        scope.spawn(move || drain.count());
    });
}

fn shared_stack() {
    let stack: Stack<usize, 4> = Stack::new();
    std::thread::scope(|scope| {
        scope.spawn(|| stack.push(1));
    });
}

/// `Arc` does not make a structure of one thread shareable.
fn shared_ring_in_an_arc() {
    let ring: Arc<Ring<u64, 4>> = Arc::new(Ring::new());
    let other = Arc::clone(&ring);
    std::thread::spawn(move || other.push(1));
}

per_thread! {
    static HITS: Counter = Counter::new();
}

/// A thread's own value, lent to another thread.
fn shared_from_with() {
    HITS.with(|hits| {
        std::thread::scope(|scope| {
            scope.spawn(|| hits.increment());
        });
    });
}

/// An ordinary static is shared by all threads.
static MAP: Map<usize, usize, 16> = Map::new();

static STATIC: SpinLockBy<Restarting, u32> = SpinLockBy::new(0);

/// Counting does not widen the scope.
static COUNTED: MutexBy<Counted<Restarting>, u32> = MutexBy::new(0);

fn shared_lock() {
    let lock = MutexBy::<Rolling, u32>::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| *lock.lock() += 1);
    });
}

/// Its handlers stay behind.
fn sent_lock() {
    let lock = SpinLockBy::<Masked, u32>::new(0);
    std::thread::spawn(move || *lock.lock() += 1);
}

/// A guard unlocks where it is dropped.
fn sent_guard() {
    let lock = SpinLockBy::<Restarting, u32>::new(0);
    let guard = lock.lock();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(guard));
    });
}

fn main() {}
