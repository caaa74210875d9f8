//! Structures of one thread in the hands of another one: their operations are atomic against the
//! handlers of their thread only.

use std::sync::Arc;

use atomseq::local::{Counter, Map, Queue, Ring, Stack, per_thread};

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

fn main() {}
