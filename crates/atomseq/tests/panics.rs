//! Panics that are documented name the line of the caller, not one of this library.

use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::{Arc, Mutex};

use atomseq::dcas::{Adjacent, Cell, Change, Domain, Packed};
use atomseq::mutex::Semaphore;
use atomseq::nonblocking::{self, HashMap, LinkedQueue, LinkedStack, List, MultiMap};
use atomseq::nonblocking::{OneVisitorList, PriorityQueue, RefHashMap, RefList, spsc};
use atomseq::percpu::{Area, Histogram, Pool, Queue, Ring, Stack};

/// Returns the file and line of each panic of `fails`.
fn lines_of(fails: &[&dyn Fn()]) -> Vec<(String, u32)> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let noted = lines.clone();
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panicked| {
        let at = panicked.location().unwrap();
        noted
            .lock()
            .unwrap()
            .push((at.file().to_owned(), at.line()));
    }));
    for (number, fails) in fails.iter().enumerate() {
        let result = panic::catch_unwind(AssertUnwindSafe(fails));
        if result.is_ok() {
            lines
                .lock()
                .unwrap()
                .push((format!("call {number} did not panic"), 0));
        }
    }
    panic::set_hook(before);
    std::mem::take(&mut *lines.lock().unwrap())
}

#[test]
fn documented_panics_name_the_callers_line() {
    const NONE: usize = usize::MAX;
    let area = Area::try_new(0).unwrap();
    let (stack, ring) = (
        Stack::<usize>::with_capacity_per_cpu(4),
        Ring::<usize>::with_capacity_per_cpu(4),
    );
    let (queue, pool) = (
        Queue::<usize>::new(),
        Pool::with_capacity_per_cpu(4, || 1usize),
    );
    let histogram = Histogram::powers_of_two();
    let domain = Domain::new([Cell::new(1), Cell::new(2)]);
    let (adjacent, packed) = (Adjacent::new(1, 2), Packed::<32>::new(1, 2));
    let (other, list, another) = (Cell::new(1), RefList::new(), RefList::new());
    list.push_front(1).unwrap();
    let (timers, more_timers) = (PriorityQueue::new(), PriorityQueue::<u64, ()>::new());
    let timer = timers.insert(1_u64, ()).unwrap();
    // A value that cannot have one more guard.
    let lent = RefHashMap::new();
    lent.insert(1, ()).unwrap();
    let lease = lent.get(&1).unwrap();
    (0..(1 << 20) - 3).for_each(|_| std::mem::forget(lease.clone()));
    let (large, pairs) = (u64::MAX, || (0..10_000u64).zip(0u64..));
    let one = || Change::of(&domain[0], 1, 1);
    let first = Location::caller().line() + 2;
    let fails: &[&dyn Fn()] = &[
        &|| _ = area.bulk(NONE),
        &|| _ = area.peek(NONE, Area::FIRST_WORD),
        &|| _ = area.peek(0, 0),
        &|| _ = area.peek(0, Area::FIRST_WORD + 4),
        &|| _ = area.peek(0, Area::BULK),
        &|| _ = area.close_gate(NONE),
        &|| _ = stack.len_on(NONE),
        &|| _ = stack.steal_from(NONE),
        &|| _ = ring.len_on(NONE),
        &|| _ = ring.steal_from(NONE),
        &|| _ = queue.is_empty_on(NONE),
        &|| _ = queue.steal_from(NONE),
        &|| _ = pool.steal_from(NONE),
        &|| _ = histogram.snapshot_on(NONE),
        &|| histogram.record_in(NONE, 0),
        &|| _ = Histogram::with_bounds(&[]),
        &|| _ = Histogram::log_linear(13, 1),
        &|| _ = Stack::<usize>::with_capacity_per_cpu(0),
        &|| _ = Ring::<usize>::with_capacity_per_cpu(0),
        &|| _ = Pool::with_capacity_per_cpu(0, || 1usize),
        &|| _ = domain.load(&other),
        &|| _ = domain.snapshot([&other]),
        &|| _ = domain.load_all([&other]),
        &|| _ = domain.compare_exchange_pair(one(), one()),
        &|| _ = domain.compare_exchange(Change::of(&other, 1, 2)),
        &|| _ = domain.compare_exchange_all(&[Change::of(&other, 1, 2)]),
        &|| _ = domain.store_pair_if(domain.version(), (&other, 1), (&domain[0], 1)),
        &|| _ = domain.fetch_update(&other, |_| None),
        &|| _ = Cell::new(large),
        &|| _ = Adjacent::new(large, 0),
        &|| _ = adjacent.compare_exchange((1, 2), (large, 0)),
        &|| _ = adjacent.fetch_update(|_| Some((large, 0))),
        &|| _ = Packed::<32>::new(large, 0),
        &|| _ = packed.compare_exchange((1, 2), (large, 0)),
        &|| _ = packed.fetch_update(|_| Some((large, 0))),
        &|| _ = Semaphore::new(Semaphore::MAX + 1),
        &|| _ = nonblocking::Stack::<usize>::with_capacity(0),
        &|| _ = nonblocking::Queue::<usize>::with_capacity(0),
        &|| _ = spsc::Ring::<usize>::with_capacity(0),
        &|| LinkedStack::try_with_limit(1).unwrap().extend(0..10_000),
        &|| LinkedQueue::try_with_limit(1).unwrap().extend(0..10_000),
        &|| List::try_with_limit(1).unwrap().extend(pairs()),
        &|| RefList::try_with_limit(1).unwrap().extend(0..10_000),
        &|| OneVisitorList::try_with_limit(1).unwrap().extend(0..10_000),
        &|| PriorityQueue::try_with_limit(1).unwrap().extend(pairs()),
        &|| _ = HashMap::<u64, u64>::with_capacity(NONE),
        &|| _ = MultiMap::<u64, u64>::with_buckets(0),
        &|| _ = another.remove(&list.front().unwrap()),
        &|| _ = more_timers.priority(timer),
        &|| _ = more_timers.remove(timer),
        &|| _ = more_timers.change_priority(timer, 2),
        &|| _ = lent.get(&1),
        &|| _ = lease.clone(),
    ];
    let expected: Vec<_> = (first..)
        .take(fails.len())
        .map(|line| (file!().to_owned(), line))
        .collect();
    assert_eq!(lines_of(fails), expected);
}
