//! The threads' operations on a priority queue, a page map and a server, and the invariants
//! afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use verify_model::controls::shuttle_thread as thread;

use crate::Orders::Many;
use crate::dcas::Protection::{ExchangeVersion, LastLook};
use crate::models::{Value, beside};
use crate::nonblocking::{Operation, PageMap, PriorityQueue, Server};
use crate::sync::{set_this_thread, step};
use crate::{fails, holds};

/// Each value is its own priority, and all of them leave once, in ascending order.
fn drains(queue: &PriorityQueue<u64, Value>, mut popped: Vec<u32>, all: &[u32]) {
    let rest: Vec<_> = queue
        .drain()
        .map(|(priority, value)| {
            assert_eq!(priority, u64::from(value.number), "another's value");
            value.number
        })
        .collect();
    assert!(rest.is_sorted(), "out of order");
    popped.extend(rest);
    popped.sort_unstable();
    assert_eq!(popped, all, "an entry is lost, or came twice");
}

fn queue_of(numbers: &[u32], dropped: &Arc<AtomicUsize>) -> Arc<PriorityQueue<u64, Value>> {
    let queue = PriorityQueue::new();
    for number in numbers {
        assert!(
            queue
                .insert(u64::from(*number), Value::new(*number, dropped))
                .is_ok()
        );
    }
    Arc::new(queue)
}

fn pops() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let queue = queue_of(&[1, 2, 3], &dropped);
    let count = Arc::clone(&dropped);
    let other = thread::spawn({
        let queue = Arc::clone(&queue);
        move || {
            let first = queue.pop().map(|(_, value)| value.number);
            // Reuses the node that was just freed.
            assert!(queue.insert(4, Value::new(4, &count)).is_ok());
            first
        }
    });
    let mut popped: Vec<_> = queue
        .pop()
        .into_iter()
        .map(|(_, value)| value.number)
        .collect();
    assert!(queue.insert(5, Value::new(5, &dropped)).is_ok());
    popped.extend(other.join().unwrap());
    drains(&queue, popped, &[1, 2, 3, 4, 5]);
    drop(queue);
    assert_eq!(dropped.load(Ordering::SeqCst), 5, "not all have ended");
}

#[test]
fn every_entry_of_a_priority_queue_leaves_once() {
    holds("pops and insertions", Many(700), pops);
    fails("pops and insertions", "", ExchangeVersion, pops);
}

fn due() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let queue = queue_of(&[1, 9], &dropped);
    let count = Arc::clone(&dropped);
    let other = beside(&queue, move |queue| {
        // The node of 1 is used again for 7.
        drop(queue.pop());
        assert!(queue.insert(7, Value::new(7, &count)).is_ok());
    });
    let least = queue.peek();
    assert!(
        matches!(least, Some(1 | 7 | 9)),
        "no entry has it: {least:?}"
    );
    let due = queue.pop_due(5).map(|(_, value)| value.number);
    assert!(matches!(due, None | Some(1)), "not due: {due:?}");
    other.join().unwrap();
}

/// What is decided by a priority that was read counts only at its version.
#[test]
fn only_what_is_due_is_popped() {
    holds("entries that are due", Many(700), due);
    fails("entries that are due", "not due", ExchangeVersion, due);
}

fn handles() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let queue = queue_of(&[3], &dropped);
    let handle = queue.insert(1, Value::new(1, &dropped)).expect("memory");
    let count = Arc::clone(&dropped);
    let other = thread::spawn({
        let queue = Arc::clone(&queue);
        move || {
            let popped = queue.pop().map(|(_, value)| value.number);
            // Reuses the node, if it was popped here.
            assert!(queue.insert(2, Value::new(2, &count)).is_ok());
            popped
        }
    });
    let removed = queue.remove(handle).map(|(_, value)| value.number);
    assert!(
        matches!(removed, None | Some(1)),
        "the handle of another entry"
    );
    let popped = other.join().unwrap();
    let out = popped.into_iter().chain(removed).collect();
    drains(&queue, out, &[1, 2, 3]);
    drop(queue);
    assert_eq!(dropped.load(Ordering::SeqCst), 3, "not all have ended");
}

#[test]
fn a_handle_names_one_entry() {
    holds("removals by handle", Many(700), handles);
    fails("removals by handle", "", ExchangeVersion, handles);
}

/// The entries of page 64, which differ in both of their words.
const BOTH: [[u32; 3]; 2] = [[u32::MAX; 3], [0; 3]];

fn lookups() {
    let map = Arc::new(PageMap::<[u32; 3]>::new());
    map.insert(64, BOTH[0]).unwrap();
    let other = beside(&map, |map| {
        map.insert(64, BOTH[1]).unwrap();
        map.unload(64, |page, entry| assert_eq!((page, entry), (64, BOTH[1])));
        // Reuses the leaf that was just freed.
        map.insert(128, [9; 3]).unwrap();
    });
    let found = map.get(64);
    assert!(
        found.is_none_or(|entry| BOTH.contains(&entry)),
        "another entry: {found:?}"
    );
    other.join().unwrap();
    assert_eq!((map.get(64), map.get(128)), (None, Some([9; 3])));
}

#[test]
fn a_lookup_finds_no_other_entry() {
    holds("lookups during changes", Many(300), lookups);
    fails("lookups during changes", "another entry", LastLook, lookups);
}

fn unloads() {
    let map = Arc::new(PageMap::<u64>::new());
    map.insert(0, 1).unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    let other = beside(&map, move |map| {
        let unloaded = map.unload(0, |_, _| ());
        count.fetch_add(unloaded, Ordering::SeqCst);
    });
    map.insert(1, 2).unwrap();
    other.join().unwrap();
    let left = usize::from(map.get(0).is_some()) + usize::from(map.get(1).is_some());
    assert_eq!(written.load(Ordering::SeqCst) + left, 2, "an entry is lost");
}

/// GC96, section 5.2: a change of an entry fails if its leaf has been unloaded.
#[test]
fn no_entry_is_lost_in_an_unload() {
    holds("insertions during an unload", Many(300), unloads);
    let lost = "";
    fails(
        "insertions during an unload",
        lost,
        ExchangeVersion,
        unloads,
    );
}

/// Adds to both halves, which are equal.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Add(u64);

// SAFETY: the type has exactly the bytes of a number.
unsafe impl crate::nonblocking::Plain for Add {}

impl Operation<[u64; 2]> for Add {
    type Output = u64;

    fn apply(self, sum: &mut [u64; 2]) -> u64 {
        let before = sum[0];
        step();
        *sum = sum.map(|half| half + self.0);
        before
    }
}

fn served(abandoned: bool) {
    let server = Arc::new(Server::<[u64; 2], Add>::new([0, 0]));
    if abandoned {
        server.abandon();
    }
    let run = |server: &Server<[u64; 2], Add>, me: u64, more: u64| {
        set_this_thread(me);
        server.run(Add(more)).unwrap()
    };
    let others = [(4, 1), (6, 2)].map(|(me, more)| {
        let server = Arc::clone(&server);
        thread::spawn(move || run(&server, me, more))
    });
    let object = server.load();
    assert_eq!(object[0], object[1], "torn");
    let outputs = others.map(|other| other.join().unwrap());
    assert_eq!(server.load(), [3, 3], "an operation is lost, or ran twice");
    assert!(
        outputs == [0, 1] || outputs == [2, 0],
        "outputs of no order: {outputs:?}"
    );
    assert_eq!(server.operations(), 2, "an operation is lost, or ran twice");
}

#[test]
fn a_server_runs_each_operation_once() {
    holds("operations of a server", Many(500), || served(false));
    holds("operations of a stopped server", Many(100), || served(true));
    let wrong = "";
    fails("operations of a server", wrong, ExchangeVersion, || {
        served(false)
    });
}
