//! Memory use while values come and go: it stays constant, however many there were. And nodes that
//! are made to come back.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use atomseq::AsWord;
use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{
    HashMap, LinkedQueue, LinkedStack, List, MultiMap, OneVisitorList, PageMap, PriorityQueue,
    Queue, RefHashMap, RefList, Stack, Unordered,
};
use verify_support::number_from_env;
use verify_support::proc::pages_in_memory;

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

/// Operations after which the memory use must be unchanged; an hour of them is some 10,000,000.
fn operations() -> u64 {
    number_from_env("ATOMSEQ_CHURN_OPERATIONS", 100_000)
}

/// How many pages may be added during the churn: stacks that grow, the harness' own memory.
const CEILING: usize = 128;

/// Runs one test at a time: memory use is the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `churn` with the number of its thread and of the round, on several threads. The first
/// tenth may allocate memory.
fn stays_small(name: &str, churn: impl Fn(u64, u64) + Sync) {
    const THREADS: u64 = 3;
    let round = |rounds: u64| {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let churn = &churn;
                scope.spawn(move || (0..rounds / THREADS).for_each(|round| churn(thread, round)));
            }
        });
    };
    round(operations() / 10);
    let before = pages_in_memory();
    round(operations());
    let after = pages_in_memory();
    println!(
        "{name}: {} operations, {before} pages before, {after} after",
        operations()
    );
    assert!(
        after < before + CEILING,
        "{name}: {before} pages have become {after}"
    );
}

#[test]
fn memory_stays_what_it_was() {
    let _alone = alone();
    for mechanism in MECHANISMS {
        let stack = Stack::<Box<u64>>::forced(64, mechanism);
        stays_small("Stack", |thread, round| {
            _ = stack.push(Box::new(thread));
            if round % 3 != 0 {
                stack.pop();
            }
        });
        let queue = queue_by::<Box<u64>>(mechanism, 64);
        stays_small("Queue", |thread, round| {
            _ = queue.push(Box::new(thread));
            if round % 3 != 0 {
                queue.pop();
            }
        });
        let linked = LinkedStack::<Box<u64>>::forced(mechanism);
        stays_small("LinkedStack", |thread, round| {
            let value = Box::new(thread);
            let pushed = if round % 2 == 0 {
                linked.push(value)
            } else {
                linked.push_back(value)
            };
            assert!(pushed.is_ok());
            linked.pop();
        });
        let unbounded = LinkedQueue::<Box<u64>>::forced(mechanism);
        stays_small("LinkedQueue", |thread, _| {
            assert!(unbounded.push(Box::new(thread)).is_ok());
            unbounded.pop();
        });
        let list = List::<u64, u64>::forced(mechanism);
        stays_small("List", |thread, round| {
            let key = (thread * 7 + round * 13) % 64;
            match round % 4 {
                0 => _ = list.try_insert(key, round),
                1 => _ = list.remove(&key),
                2 => _ = list.insert(key, round),
                _ => _ = list.pop_first(),
            }
        });
        let pairs = MultiMap::<u64, u64>::forced(16, mechanism);
        stays_small("MultiMap", |thread, round| {
            let (key, value) = (round % 32, thread * 7 + round % 5);
            match round % 4 {
                0 | 1 => _ = pairs.insert(key, value).expect("memory"),
                2 => _ = pairs.remove(&(key - 1), &value),
                _ => _ = pairs.pop(&(key - 3)),
            }
            if round % 1_000 == 0 {
                pairs.retain(|_, value| value / 7 != thread);
            }
        });
        let counted = RefList::<Box<u64>>::forced(mechanism);
        stays_small("RefList", |thread, _| {
            assert!(counted.push_front(Box::new(thread)).is_ok());
            drop(counted.pop_front());
        });
        let visited = OneVisitorList::<Box<u64>>::forced(mechanism);
        stays_small("OneVisitorList", |thread, _| {
            assert!(visited.push_front(Box::new(thread)).is_ok());
            drop(visited.pop_front());
        });
        let priorities = PriorityQueue::<u64, Box<u64>>::forced(mechanism);
        stays_small("PriorityQueue", |thread, round| {
            let inserted = priorities.insert(round * 7 % 64, Box::new(thread));
            let handle = inserted.expect("memory");
            match round % 4 {
                0 => _ = priorities.remove(handle),
                1 => _ = priorities.change_priority(handle, round % 5),
                _ => {}
            }
            priorities.pop();
            if round % 64 == 0 {
                // The thread that has changed a priority may have popped before.
                while priorities.pop().is_some() {}
            }
        });
        let pages = PageMap::<u64, 48>::wide_forced(mechanism);
        stays_small("PageMap", |thread, round| {
            // Two GiB apart, and another region each 1,000 rounds.
            let page = (thread << 19) + round / 1_000 % 32 * 8192 + round % 97;
            pages.insert(page, round).expect("memory");
            match round % 8 {
                0 => _ = pages.remove(page),
                1 => _ = pages.unload(page, |_, _| ()),
                _ => {}
            }
            if round % 1_000 == 999 {
                pages.unload_subtree(page, |_, _| ());
            }
        });
    }
}

/// Makes a queue by k-CAS, or by the algorithm that the processor allows.
fn queue_by<T: AsWord>(mechanism: Mechanism, capacity: usize) -> Queue<T> {
    match mechanism {
        Mechanism::Assisted => Queue::with_capacity(capacity),
        Mechanism::Kcas => Queue::by_kcas(capacity),
    }
}

/// The largest number of values in flight between a producer and a consumer.
const UNDER_WAY: u64 = 2_000;

/// One thread puts values in and another takes them out, about as many as there are operations in
/// all. The largest number in flight is reached once beforehand.
fn flows<T>(name: &str, put: impl Fn(u64) + Sync, take: impl Fn() -> Option<T> + Sync) {
    let (put, take) = (&put, &take);
    thread::scope(|scope| {
        scope.spawn(|| (0..UNDER_WAY).for_each(put));
    });
    (0..UNDER_WAY).for_each(|_| assert!(take().is_some()));
    let before = pages_in_memory();
    let taken = &AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(move || {
            for value in 0..operations() {
                while value - taken.load(Ordering::Relaxed) >= UNDER_WAY {
                    thread::yield_now();
                }
                put(value);
            }
        });
        scope.spawn(move || {
            while taken.load(Ordering::Relaxed) < operations() {
                match take() {
                    Some(_) => _ = taken.fetch_add(1, Ordering::Relaxed),
                    None => thread::yield_now(),
                }
            }
        });
    });
    let after = pages_in_memory();
    println!(
        "{name}: {} values from one thread to another, {before} pages before, {after} after",
        operations()
    );
    assert!(
        after < before + CEILING,
        "{name}: {before} pages have become {after}"
    );
}

/// A map has one mechanism. Its buckets come and go with the entries.
#[test]
fn memory_of_a_map_stays_what_it_was() {
    let _alone = alone();
    let map = HashMap::<u64, u64>::new();
    stays_small("HashMap", |thread, round| {
        // Up to 3 * 512 keys come, and go again.
        let (phase, index) = (round / 512 % 2, round % 512);
        let key = index * 3 + thread;
        match phase {
            0 => _ = map.insert(key, round).expect("memory"),
            _ => _ = map.remove(&key),
        }
    });
}

#[test]
fn memory_of_a_map_of_counted_values_stays_what_it_was() {
    let _alone = alone();
    let map = RefHashMap::<u64, Box<u64>>::new();
    stays_small("RefHashMap", |thread, round| {
        let (phase, index) = (round / 512 % 2, round % 512);
        let key = index * 3 + thread;
        let guard = map.get(&(key % 7));
        match phase {
            0 => _ = map.insert(key, Box::new(round)).expect("memory"),
            _ => _ = map.remove(&key),
        }
        drop(guard);
    });
}

#[test]
fn memory_stays_what_it_was_while_values_flow() {
    let _alone = alone();
    for mechanism in MECHANISMS {
        let room = UNDER_WAY as usize;
        let stack = Stack::<u64>::forced(room, mechanism);
        flows(
            "Stack",
            |value| stack.push(value).expect("room"),
            || stack.pop(),
        );
        let queue = queue_by::<u64>(mechanism, room);
        flows(
            "Queue",
            |value| queue.push(value).expect("room"),
            || queue.pop(),
        );
        let linked = LinkedQueue::<u64>::forced(mechanism);
        flows(
            "LinkedQueue",
            |value| linked.push(value).expect("memory"),
            || linked.pop(),
        );
        let list = List::<u64, u64, Unordered>::unordered_forced(mechanism);
        flows(
            "List",
            |value| list.push_front(value, value).expect("memory"),
            || list.pop_first(),
        );
        let counted = RefList::<u64>::forced(mechanism);
        flows(
            "RefList",
            |value| counted.push_front(value).expect("memory"),
            || counted.pop_front(),
        );
        let visited = OneVisitorList::<u64>::forced(mechanism);
        flows(
            "OneVisitorList",
            |value| visited.push_front(value).expect("memory"),
            || visited.pop_front(),
        );
        let priorities = PriorityQueue::<u64, u64>::forced(mechanism);
        flows(
            "PriorityQueue",
            |value| _ = priorities.insert(value % 1_000, value).expect("memory"),
            || priorities.pop(),
        );
    }
}

/// k-CAS keeps no memory for a word that it has changed: this many nodes, and hardly anything else.
#[test]
fn a_changed_word_costs_nothing() {
    const VALUES: u64 = 100_000;
    let _alone = alone();
    let linked = LinkedStack::<u64>::forced(Mechanism::Kcas);
    let before = pages_in_memory();
    (0..VALUES).for_each(|value| linked.push_back(value).expect("memory"));
    let full = pages_in_memory();
    println!("LinkedStack: {before} pages before, {full} with {VALUES} values");
    // At most a cache line for each value.
    assert!(full < before + VALUES as usize * 64 / 4096 + CEILING);
    while linked.pop().is_some() {}
    assert!(pages_in_memory() < full + CEILING);
}

/// A control: one value in a hundred is never taken out.
#[test]
fn what_is_left_behind_is_noticed() {
    let _alone = alone();
    let list = LinkedStack::<u64>::forced(Mechanism::Kcas);
    let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stays_small("LinkedStack with a leak", |thread, round| {
            assert!(list.push(thread).is_ok());
            if round % 10 != 0 {
                list.pop();
            }
        });
    }));
    assert!(
        left.is_err(),
        "a tenth of all values stayed, and was not noticed"
    );
}

/// Between the load and the exchange of a pop, the node that it has loaded is removed, and comes
/// back on top with another successor.
#[test]
fn a_node_that_comes_back_is_noticed() {
    let _alone = alone();
    for mechanism in MECHANISMS {
        let stack = LinkedStack::<u64>::forced(mechanism);
        for value in [1, 2, 3] {
            stack.push(value).unwrap();
        }
        let attempts = AtomicU64::new(0);
        let popped = stack.pop_between(|version| {
            if attempts.fetch_add(1, Ordering::Relaxed) == 0 {
                // 3 and 2 are popped; their nodes are allocated next, the last one first.
                assert_eq!([stack.pop(), stack.pop()], [Some(3), Some(2)]);
                stack.push(4).unwrap();
                stack.push(5).unwrap();
            }
            version
        });
        assert_eq!(popped, Some(5), "{mechanism:?}");
        assert!(
            attempts.load(Ordering::Relaxed) > 1,
            "{mechanism:?}: the old look counted"
        );
        assert_eq!(stack.drain().collect::<Vec<_>>(), [4, 1], "{mechanism:?}");
    }
}
