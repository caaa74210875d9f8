//! Tests of `PriorityQueue`.

use std::cell::Cell as Counter;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A sequence of numbers that are as good as random.
fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (seed >> 33) % below
    }
}

/// Entries with their handles in the order in which they leave.
#[derive(Default)]
struct Model(Vec<(u64, u64, Handle)>);

impl Model {
    fn insert(&mut self, priority: u64, value: u64, handle: Handle) {
        let place = self.0.partition_point(|(other, ..)| *other <= priority);
        self.0.insert(place, (priority, value, handle));
    }

    fn remove(&mut self, handle: Handle) -> Option<(u64, u64)> {
        let place = self.0.iter().position(|(.., other)| *other == handle)?;
        let (priority, value, _) = self.0.remove(place);
        Some((priority, value))
    }

    fn pop_due(&mut self, now: u64) -> Option<(u64, u64)> {
        let (.., handle) = *self.0.first().filter(|(priority, ..)| *priority <= now)?;
        self.remove(handle)
    }
}

type Queue = PriorityQueue<u64, u64>;

/// Performs one operation on a queue and on the model, and compares the results. `handles` are
/// those of all entries there ever were.
fn both(
    queue: &Queue,
    model: &mut Model,
    handles: &mut Vec<Handle>,
    number: &mut impl FnMut(u64) -> u64,
) {
    let any = number(handles.len().max(1) as u64) as usize;
    let any = handles.get(any).copied();
    let (which, priority, value) = (number(16), number(50), number(1 << 20));
    match (which, any) {
        (0..7, _) => {
            let handle = queue.insert(priority, value).unwrap();
            assert!(!handles.contains(&handle), "a handle has come back");
            handles.push(handle);
            model.insert(priority, value, handle);
        }
        (7..10, _) => assert_eq!(queue.pop(), model.pop_due(u64::MAX)),
        (10, _) => assert_eq!(queue.pop_due(priority), model.pop_due(priority)),
        (11, Some(handle)) => {
            let there = model.0.iter().find(|(.., other)| *other == handle);
            assert_eq!(queue.priority(handle), there.map(|there| there.0));
        }
        (12, Some(handle)) => {
            let removed = model.remove(handle);
            let changed = queue.change_priority(handle, priority);
            assert_eq!(changed.is_some(), removed.is_some());
            if let (Some((_, value)), Some(handle)) = (removed, changed) {
                handles.push(handle);
                model.insert(priority, value, handle);
            }
        }
        (_, Some(handle)) => assert_eq!(queue.remove(handle), model.remove(handle)),
        (_, None) => {}
    }
    assert_eq!(queue.peek(), model.0.first().map(|first| first.0));
}

fn is_like(queue: &Queue, model: &Model) {
    assert_eq!(queue.len(), model.0.len());
    assert_eq!(queue.is_empty(), model.0.is_empty());
}

#[test]
fn it_matches_its_model() {
    for mechanism in MECHANISMS {
        let (queue, mut model) = (Queue::forced(mechanism), Model::default());
        let (mut handles, mut number) = (Vec::new(), numbers(1));
        for step in 0..2_000 * SCALE {
            both(&queue, &mut model, &mut handles, &mut number);
            if step % 16 == 0 {
                is_like(&queue, &model);
            }
            if step % 500 == 499 {
                // Empties the queue. Older handles still name nothing.
                while let Some(popped) = queue.pop() {
                    assert_eq!(Some(popped), model.pop_due(u64::MAX));
                }
                is_like(&queue, &model);
                handles.drain(..handles.len() / 2);
            }
        }
    }
}

/// Every operation is interrupted by others right after each read of the version, as by a signal
/// handler or another CPU.
#[test]
fn an_interrupted_operation_matches_its_model() {
    for mechanism in MECHANISMS {
        let mut number = numbers(2);
        for round in 0..500 * SCALE {
            let (queue, mut model) = (Queue::forced(mechanism), Model::default());
            let mut handles = Vec::new();
            for _ in 0..number(8) {
                let (priority, value) = (number(6), number(1 << 20));
                let handle = queue.insert(priority, value).unwrap();
                handles.push(handle);
                model.insert(priority, value, handle);
            }
            let (priority, value) = (number(6), number(1 << 20));
            let chosen = number(handles.len().max(1) as u64) as usize;
            let chosen = handles.get(chosen).copied();
            let mut left = 1 + round % 3;
            let gap = |version| {
                if left > 0 {
                    left -= 1;
                    both(&queue, &mut model, &mut handles, &mut number);
                }
                version
            };
            match (round % 3, chosen) {
                (0, Some(handle)) => {
                    let removed = queue.remove_between(handle, gap);
                    assert_eq!(removed, model.remove(handle));
                }
                (1, _) => {
                    let popped = queue.pop_between(gap);
                    assert_eq!(popped, model.pop_due(u64::MAX));
                }
                _ => {
                    let handle = queue.insert_between(priority, value, gap).unwrap();
                    model.insert(priority, value, handle);
                }
            }
            let rest: Vec<_> = queue.drain().collect();
            let expected: Vec<_> = model.0.iter().map(|(p, v, _)| (*p, *v)).collect();
            assert_eq!(rest, expected);
        }
    }
}

#[test]
fn equal_priorities_leave_in_the_order_of_their_insertion() {
    for mechanism in MECHANISMS {
        let queue = Queue::forced(mechanism);
        (0..3_000).for_each(|value| _ = queue.insert(value % 3, value).unwrap());
        for priority in 0..3 {
            for value in (priority..3_000).step_by(3) {
                assert_eq!(queue.pop(), Some((priority, value)));
            }
        }
    }
}

#[test]
fn it_agrees_with_a_heap() {
    let mut number = numbers(3);
    let (queue, mut heap) = (PriorityQueue::new(), BinaryHeap::new());
    for step in 0..20_000 {
        // Grows to some thousands, and shrinks.
        if number(8) < 5 - step / 10_000 * 2 {
            let priority = number(1 << 30);
            queue.insert(Reverse(priority), ()).unwrap();
            heap.push(priority);
        } else {
            let popped = queue.pop().map(|(Reverse(priority), ())| priority);
            assert_eq!(popped, heap.pop());
        }
    }
    let rest = queue.drain().map(|(Reverse(priority), ())| priority);
    assert!(rest.eq(heap.into_sorted_vec().into_iter().rev()));
}

#[test]
fn only_what_is_due_is_popped() {
    let queue = PriorityQueue::from_iter([(10, 'a'), (20, 'b'), (20, 'c'), (30, 'd')]);
    assert_eq!(queue.pop_due(9), None);
    let due = std::iter::from_fn(|| queue.pop_due(20));
    assert!(due.eq([(10, 'a'), (20, 'b'), (20, 'c')]));
    assert_eq!((queue.pop_due(29), queue.len()), (None, 1));
}

#[test]
fn a_handle_names_its_entry_alone() {
    for mechanism in MECHANISMS {
        let queue = Queue::forced(mechanism);
        let old = queue.insert(5, 1).unwrap();
        assert_eq!(queue.priority(old), Some(5));
        let changed = queue.change_priority(old, 7).unwrap();
        assert_eq!((queue.priority(old), queue.remove(old)), (None, None));
        assert_eq!(queue.change_priority(old, 9), None);
        assert_eq!(queue.priority(changed), Some(7));
        assert_eq!(queue.remove(changed), Some((7, 1)));
        // The node is used again for an entry of the same priority.
        let new = queue.insert(7, 2).unwrap();
        assert_eq!(queue.remove(changed), None);
        assert_eq!(queue.remove(new), Some((7, 2)));
    }
}

#[test]
#[should_panic(expected = "a handle of another queue")]
fn a_handle_of_another_queue_is_refused() {
    let handle = Queue::new().insert(1, 1).unwrap();
    Queue::new().remove(handle);
}

#[test]
fn a_limit_holds() {
    let queue = PriorityQueue::try_with_limit(2).unwrap();
    queue.insert(1, "one").unwrap();
    let two = queue.insert(2, "two").unwrap();
    let refused = queue.insert(3, "three").unwrap_err();
    assert_eq!(refused.value, "three");
    assert_eq!(refused.reason, crate::type_stable::Error::LimitReached);
    // It needs no memory to change a priority.
    assert!(queue.change_priority(two, 0).is_some());
    assert_eq!(queue.pop(), Some((0, "two")));
    queue.insert(3, "three").unwrap();
}

/// Counts its drops, and is larger than a word.
struct Counted(usize, Arc<Vec<AtomicUsize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1[self.0].fetch_add(1, Ordering::Relaxed);
    }
}

/// Threads insert, pop, remove and change priorities. Each value is dropped once, some of them with
/// the queue.
#[test]
fn nothing_is_lost_or_duplicated() {
    const EACH: usize = 2_000;
    for mechanism in MECHANISMS {
        let queue = PriorityQueue::forced(mechanism);
        let dropped: Arc<Vec<_>> = Arc::new((0..4 * EACH).map(|_| AtomicUsize::new(0)).collect());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (queue, dropped) = (&queue, &dropped);
                scope.spawn(move || {
                    let mut number = numbers(thread as u64);
                    for value in thread * EACH..(thread + 1) * EACH {
                        let value = Counted(value, dropped.clone());
                        let handle = queue.insert(number(100), value).unwrap();
                        match number(4) {
                            0 => drop(queue.remove(handle)),
                            1 => _ = queue.change_priority(handle, number(100)),
                            2 => drop(queue.pop()),
                            _ => drop(queue.pop_due(50)),
                        }
                    }
                });
            }
        });
        let mut last = 0;
        for (priority, _) in queue.drain().take(queue.len() / 2) {
            assert!(priority >= last, "out of order");
            last = priority;
        }
        drop(queue);
        assert!(
            dropped
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 1)
        );
    }
}

// The index. How long a search takes is known by the number of comparisons.

plain! {
    struct Compared {
        number: u64,
    }
}

thread_local! {
    static COMPARISONS: Counter<usize> = const { Counter::new(0) };
}

impl PartialEq for Compared {
    fn eq(&self, other: &Compared) -> bool {
        self.number == other.number
    }
}

impl Eq for Compared {}

impl PartialOrd for Compared {
    fn partial_cmp(&self, other: &Compared) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Compared {
    fn cmp(&self, other: &Compared) -> std::cmp::Ordering {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.number.cmp(&other.number)
    }
}

const MANY: u64 = 10_000;

fn queue_of_many() -> PriorityQueue<Compared, u64> {
    let (queue, mut number) = (PriorityQueue::new(), numbers(5));
    for value in 0..MANY {
        let priority = Compared {
            number: number(1 << 30),
        };
        queue.insert(priority, value).unwrap();
    }
    queue
}

/// Returns the mean number of comparisons of an insertion and a removal, of many.
fn comparisons(queue: &PriorityQueue<Compared, u64>) -> usize {
    const ROUNDS: usize = 1_000;
    let mut number = numbers(6);
    COMPARISONS.set(0);
    for _ in 0..ROUNDS {
        let priority = Compared {
            number: number(1 << 30),
        };
        let handle = queue.insert(priority, 0).unwrap();
        assert!(queue.remove(handle).is_some());
    }
    COMPARISONS.get() / ROUNDS
}

/// Without the index, a search compares with thousands.
const FEW: usize = 300;

#[test]
fn a_search_takes_few_steps() {
    let queue = queue_of_many();
    let taken = comparisons(&queue);
    assert!(taken < FEW, "{taken} comparisons");
    // Half of the entries leave from the front: the hints go with them.
    for _ in 0..MANY / 2 {
        queue.pop();
    }
    let taken = comparisons(&queue);
    assert!(taken < FEW, "{taken} comparisons");
}

/// However the priorities are distributed, a search takes few steps: far behind the last stop,
/// among equal ones, and while the nodes of stops leave and are used again elsewhere in the list.
#[test]
fn a_search_takes_few_steps_from_any_stop() {
    fn of_one(rounds: u64, mut operation: impl FnMut(u64)) -> u64 {
        COMPARISONS.set(0);
        (0..rounds).for_each(&mut operation);
        COMPARISONS.get() as u64 / rounds
    }
    let taken = |what: &str, taken: u64| assert!(taken < FEW as u64, "{what}: {taken} comparisons");

    let queue = PriorityQueue::new();
    let insert = |number| queue.insert(Compared { number }, 0).unwrap();
    taken("ascending", of_one(MANY, |number| _ = insert(number)));
    let one_timeout = |number| {
        queue.pop().unwrap();
        insert(MANY + number);
    };
    taken("one timeout", of_one(MANY, one_timeout));

    let queue = PriorityQueue::new();
    let insert = || queue.insert(Compared { number: 1 }, 0).unwrap();
    let (mut handles, mut number) = (Vec::new(), numbers(8));
    taken("equal", of_one(MANY, |_| handles.push(insert())));
    let replace = |_| {
        let any = &mut handles[number(MANY) as usize];
        queue.remove(*any).unwrap();
        *any = insert();
    };
    taken("equal, removed", of_one(MANY, replace));

    // Insertions at the head do not show how long the list is, and leave the higher levels to the
    // first searches. The queue is empty in between.
    let (queue, mut number) = (PriorityQueue::new(), numbers(10));
    for _ in 0..2 {
        let insert = |number| queue.insert(Compared { number }, 0).unwrap();
        let mut handles: Vec<_> = (0..MANY).rev().map(insert).collect();
        let mut remove = |_| {
            let any = number(handles.len() as u64) as usize;
            queue.remove(handles.swap_remove(any)).unwrap();
        };
        of_one(MANY / 10, &mut remove);
        taken("descending, removed", of_one(100, &mut remove));
        while queue.pop().is_some() {}
    }

    let (queue, mut number) = (PriorityQueue::new(), numbers(9));
    let mut handles: Vec<_> = (0..MANY)
        .map(|number| queue.insert(Compared { number }, 0).unwrap())
        .collect();
    let change = |_| {
        let any = &mut handles[number(MANY) as usize];
        let number = number(MANY);
        *any = queue.change_priority(*any, Compared { number }).unwrap();
    };
    taken("changed", of_one(MANY, change));
}

/// All hints are lost, as if each thread had exited before it stored any: searches restore them.
#[test]
fn lost_hints_are_restored() {
    let queue = queue_of_many();
    queue.store_hints(|| 0);
    let first = comparisons(&queue);
    let later = comparisons(&queue);
    assert!(later < FEW, "{first} comparisons, then {later}");
    // The control: the loss was noticed.
    queue.store_hints(|| 0);
    COMPARISONS.set(0);
    let number = 1 << 30;
    queue.insert(Compared { number }, 0).unwrap();
    let taken = COMPARISONS.get();
    assert!(taken > MANY as usize, "{taken} comparisons without hints");
}

/// Hints lead anywhere: back, to themselves, to nodes that have left. Operations stay right, and
/// searches repair what they meet.
#[test]
fn wrong_hints_only_take_time() {
    for mechanism in MECHANISMS {
        let (queue, mut model) = (Queue::forced(mechanism), Model::default());
        let (mut handles, mut number) = (Vec::new(), numbers(7));
        for _ in 0..50 {
            for _ in 0..40 {
                both(&queue, &mut model, &mut handles, &mut number);
            }
            let nodes: Vec<u64> = handles.iter().map(|handle| handle.node).collect();
            queue.store_hints(|| nodes[number(nodes.len() as u64) as usize]);
        }
        is_like(&queue, &model);
        while let Some(popped) = queue.pop() {
            assert_eq!(Some(popped), model.pop_due(u64::MAX));
        }
    }
}
