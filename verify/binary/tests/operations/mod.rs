//! One function for each operation that has a fast path, so that the executable contains it by
//! name.

use atomseq::dcas::{Cell, Change, Domain, Version};
use atomseq::mutex::{Biased, OnCpu, TestAndSet};
use atomseq::nonblocking;
use atomseq::percpu::{
    Count, Counter, Counters, Histogram, Link, List, Node, Pool, Queue, Ring, Stack,
};

/// A node of a list.
pub struct Buffer {
    link: Link,
}

// SAFETY: the offset of the link.
unsafe impl Node for Buffer {
    const LINK: usize = std::mem::offset_of!(Buffer, link);
}

/// The structures that the functions use.
pub struct Structures {
    counter: Counter,
    count: Count<'static>,
    histogram: Histogram,
    stack: Stack<usize>,
    list: List<&'static mut Buffer>,
    queue: Queue<usize>,
    ring: Ring<usize>,
    pairs: Ring<[usize; 2]>,
    pool: Pool<usize, fn() -> usize>,
    flag: OnCpu,
    lock: Biased<usize>,
    domain: Domain<[Cell; 2]>,
    shared_stack: &'static nonblocking::Stack<usize>,
    shared_queue: &'static nonblocking::Queue<usize>,
}

macro_rules! operations {
    ($($name:ident: $structures:ident $(, $argument:ident: $type:ty)* => $result:ty, $operation:expr;)*) => {
        /// The names of the functions.
        pub const NAMES: &[&str] = &[$(concat!("fast_", stringify!($name))),*];

        mod functions {
            use super::*;

            $(
                #[unsafe(export_name = concat!("fast_", stringify!($name)))]
                #[inline(never)]
                pub fn $name($structures: &Structures $(, $argument: $type)*) -> $result {
                    $operation
                }
            )*
        }
    };
}

operations! {
    counter_add: it, amount: u64 => (), it.counter.add(amount);
    counter_increment: it => (), it.counter.increment();
    count_add: it, amount: u64 => (), it.count.add(amount);
    histogram_record: it, value: u64 => (), it.histogram.record(value);
    stack_push: it, value: usize => bool, it.stack.push(value).is_ok();
    stack_pop: it => Option<usize>, it.stack.pop();
    list_push: it, node: &'static mut Buffer => (), it.list.push(node);
    list_pop: it => Option<&'static mut Buffer>, it.list.pop();
    queue_push: it, value: usize => bool, it.queue.push(value).is_ok();
    queue_pop: it => Option<usize>, it.queue.pop();
    ring_push: it, value: usize => bool, it.ring.push(value).is_ok();
    ring_pop: it => Option<usize>, it.ring.pop();
    ring_push_pair: it, value: [usize; 2] => bool, it.pairs.push(value).is_ok();
    ring_pop_pair: it => Option<[usize; 2]>, it.pairs.pop();
    pool_get: it => Option<usize>, it.pool.get();
    pool_put: it, object: usize => (), it.pool.put(object);
    test_and_set_on_cpu: it => bool, it.flag.test_and_set();
    biased: it => (), *it.lock.lock() += 1;
    dcas_exchange: it, old: [u64; 2], new: [u64; 2] => bool,
        it.domain.compare_exchange_pair(Change::of(&it.domain[0], old[0], new[0]), Change::of(&it.domain[1], old[1], new[1])).is_ok();
    dcas_exchange_since: it, version: Version, new: [u64; 2] => bool,
        it.domain.store_pair_if(version, (&it.domain[0], new[0]), (&it.domain[1], new[1])).is_ok();
    nonblocking_stack_push: it, value: usize => bool, it.shared_stack.push(value).is_ok();
    nonblocking_stack_pop: it => Option<usize>, it.shared_stack.pop();
    nonblocking_queue_push: it, value: usize => bool, it.shared_queue.push(value).is_ok();
    nonblocking_queue_pop: it => Option<usize>, it.shared_queue.pop();
}

static COUNTERS: Counters = Counters::new();

/// Runs each of them, so that none can be left out of the executable.
pub fn run() {
    let it = Structures {
        counter: Counter::new(),
        count: COUNTERS.create(),
        histogram: Histogram::powers_of_two(),
        stack: Stack::with_capacity_per_cpu(4),
        list: List::new(),
        queue: Queue::new(),
        ring: Ring::with_capacity_per_cpu(4),
        pairs: Ring::with_capacity_per_cpu(4),
        pool: Pool::with_capacity_per_cpu(4, || 7),
        flag: OnCpu::CLEAR,
        lock: Biased::new(0),
        domain: Domain::new([Cell::new(1), Cell::new(1)]),
        shared_stack: Box::leak(Box::new(nonblocking::Stack::with_capacity(4))),
        shared_queue: Box::leak(Box::new(nonblocking::Queue::with_capacity(4))),
    };
    functions::counter_add(&it, 2);
    functions::counter_increment(&it);
    functions::count_add(&it, 4);
    functions::histogram_record(&it, 3);
    assert!(functions::stack_push(&it, 4));
    functions::stack_pop(&it);
    functions::list_push(&it, Box::leak(Box::new(Buffer { link: Link::new() })));
    functions::list_pop(&it);
    assert!(functions::queue_push(&it, 5));
    functions::queue_pop(&it);
    assert!(functions::ring_push(&it, 6));
    functions::ring_pop(&it);
    assert!(functions::ring_push_pair(&it, [7, 8]));
    functions::ring_pop_pair(&it);
    functions::pool_get(&it);
    functions::pool_put(&it, 9);
    assert!(functions::test_and_set_on_cpu(&it));
    functions::biased(&it);
    assert!(functions::dcas_exchange(&it, [1, 1], [2, 2]));
    assert!(!functions::dcas_exchange(&it, [1, 1], [3, 3]));
    let (words, version) = it.domain.snapshot([&it.domain[0], &it.domain[1]]);
    functions::dcas_exchange_since(&it, version, [3, 3]);
    assert_eq!(words, [2, 2]);
    assert!(functions::nonblocking_stack_push(&it, 10));
    assert_eq!(functions::nonblocking_stack_pop(&it), Some(10));
    assert!(functions::nonblocking_queue_push(&it, 11));
    assert_eq!(functions::nonblocking_queue_pop(&it), Some(11));
    assert_eq!(it.counter.sum(), 3);
}
