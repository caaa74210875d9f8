//! Several statics in one macro, of every kind that may be one.

#![deny(warnings)]
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use atomseq::local::{Counter, Map, PerThread, Queue, Ring, Stack, per_thread};

per_thread! {
    /// With a comment.
    pub static COUNTER: Counter = Counter::new();
    static STACK: Stack<&'static u8, 3> = Stack::new();
    pub(crate) static QUEUE: Queue<i16, 4> = Queue::new()
}

mod inner {
    use super::*;

    per_thread! {
        pub(super) static RING: Ring<(u8, f64), 8> = const { Ring::new() };
        #[allow(dead_code)]
        static UNUSED: AtomicBool = AtomicBool::new(true);
    }
}

per_thread! {}

fn count(counters: &PerThread<[Counter; 2]>) -> u64 {
    counters.with(|counters| {
        counters[1].increment();
        counters[1].sum()
    })
}

fn main() {
    COUNTER.with(|counter| counter.add(2));
    STACK.with(|stack| stack.push(&1)).unwrap();
    QUEUE.with(|queue| queue.push(-1)).unwrap();
    inner::RING.with(|ring| ring.push((1, 2.0))).unwrap();

    // In a function, with a value of its own.
    per_thread! {
        static HERE: [Counter; 2] = [Counter::new(), Counter::new()];
        static FLAGGED: AtomicUsize = AtomicUsize::new(7);
        static MAP: Map<u16, i32, 10> = Map::new();
    }
    assert_eq!((count(&HERE), count(&HERE)), (1, 2));
    assert_eq!(FLAGGED.with(|flagged| flagged.load(Ordering::Relaxed)), 7);
    assert_eq!(MAP.with(|map| map.insert(1, -1)), Ok(None));
    let elsewhere = std::thread::spawn(|| COUNTER.with(|counter| counter.sum()));
    assert_eq!(elsewhere.join().unwrap(), 0);
    assert_eq!(format!("{HERE:?}").matches("sum: 2").count(), 1);
}
