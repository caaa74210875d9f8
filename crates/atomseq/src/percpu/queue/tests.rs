//! A queue returns every element once and in order, and drops those that remain.

use std::sync::{Arc, Mutex};

use super::*;
use crate::platform;

#[test]
fn a_growing_queue_returns_every_element_once() {
    let queue = Queue::new();
    let mut left: Vec<usize> = Vec::new();
    for value in 0..10_000 {
        queue.push(value).unwrap();
        if value % 3 == 0 {
            left.extend(queue.pop());
        }
    }
    // This thread may have migrated, so only the elements of each CPU are in order.
    left.extend(queue.drain());
    left.sort_unstable();
    assert_eq!(left, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn a_queue_returns_the_oldest_element_first() {
    let queue = Queue::new();
    let held = queue.area.close_gate(0);
    for value in 0..FIRST_CELLS * 10 {
        // SAFETY: cells live as long as the queue, and `held` closes this slot.
        while !unsafe { push::gated(&held, value) } {
            let (first, last) = queue.chunks.new_chain(platform::map).unwrap();
            // SAFETY: the chain is new, no other code can reach it, and `held` closes this slot.
            unsafe { grow::gated(&held, first, last) };
        }
    }
    let taken = std::iter::from_fn(|| queue.take(&held));
    // SAFETY: `take` has just returned it. Converting a number needs no open gate.
    let taken: Vec<usize> = taken.map(|raw| unsafe { queue.element(raw) }).collect();
    assert_eq!(taken, (0..FIRST_CELLS * 10).collect::<Vec<_>>());
    drop(held);
    assert!(queue.is_empty());
}

#[test]
fn a_dropped_queue_drops_its_elements_once() {
    let shared = Arc::new(());
    let queue = Queue::new();
    for _ in 0..1000 {
        queue.push(shared.clone()).unwrap();
    }
    drop(queue.pop().or_else(|| queue.steal()));
    assert_eq!(Arc::strong_count(&shared), 1000);
    drop(queue);
    assert_eq!(Arc::strong_count(&shared), 1);
}

/// Pushes `put` and pops `taken` elements in turn, as the owner might between two loads of another
/// thread. The queue does not become empty meanwhile.
fn advance(queue: &Queue<usize>, taken: usize, put: usize) {
    let held = queue.area.close_gate(0);
    // SAFETY: cells live as long as the queue, and `held` closes this slot.
    unsafe {
        for _ in 0..taken.max(put) {
            if put > 0 {
                assert!(push::gated(&held, 1));
            }
            if taken > 0 {
                assert!(pop::gated(&held).is_some());
            }
        }
    }
}

/// Called between two loads of a check.
type Gap<'a> = &'a mut (dyn FnMut() + Send);

/// Runs a check while the ring advances in two of the gaps between its loads, for all pairs of gaps
/// and many distances. Returns the number of checks, and how many of them found the queue empty.
fn run_checks(check: impl Fn(&Queue<usize>, Gap<'_>) -> bool, elements: usize) -> (usize, usize) {
    const GAPS: usize = 6;
    let (mut checks, mut empty) = (0, 0);
    // All distances below one round of the ring of 32 cells, and some of several rounds.
    let moves = || (0..=FIRST_CELLS + 1).chain([2 * FIRST_CELLS - 1, 2 * FIRST_CELLS]);
    for (one, another) in (0..GAPS).flat_map(|one| (one + 1..GAPS).map(move |other| (one, other))) {
        for (first, second) in moves().flat_map(|first| moves().map(move |second| (first, second)))
        {
            let queue = Queue::new();
            advance(&queue, 0, elements);
            let mut at = 0;
            let mut gap = || {
                match at {
                    at if at == one => advance(&queue, first, first),
                    at if at == another => advance(&queue, second, second),
                    _ => {}
                }
                at += 1;
            };
            checks += 1;
            empty += usize::from(check(&queue, &mut gap));
        }
    }
    (checks, empty)
}

/// 58,320 checks.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_queue_that_is_never_empty_is_never_found_empty() {
    for elements in [1, 2, FIRST_CELLS - 2] {
        let (checks, empty) = run_checks(|queue, gap| queue.was_empty(0, gap), elements);
        assert!(checks > 10_000);
        assert_eq!(empty, 0, "of {checks} checks with {elements} elements");
    }
    let queue = Queue::<usize>::new();
    assert!(queue.was_empty(0, || ()));
    assert!(queue.was_empty(0, || advance(&queue, 0, 0)));
}

/// The control: checks without numbers, which read head and tail, or head, tail and head.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_check_without_numbers_is_detected() {
    let pair = |queue: &Queue<usize>, gap: Gap<'_>| {
        let head = queue.area.peek(0, HEAD);
        gap();
        queue.area.peek(0, TAIL) == head
    };
    let thrice = |queue: &Queue<usize>, gap: Gap<'_>| {
        let head = queue.area.peek(0, HEAD);
        gap();
        let same = queue.area.peek(0, TAIL) == head;
        gap();
        same && queue.area.peek(0, HEAD) == head
    };
    let elements = FIRST_CELLS - 2;
    assert!(run_checks(pair, elements).1 > 0 && run_checks(thrice, elements).1 > 0);
}

/// A queue that changes between the loads of the check with which `steal_from` and `drain` start.
struct Meanwhile<'queue, 'gap> {
    queue: &'queue Queue<usize>,
    gap: Mutex<Gap<'gap>>,
    is_empty: fn(&Queue<usize>, Gap<'_>) -> bool,
}

impl Take<usize> for Meanwhile<'_, '_> {
    fn area(&self) -> &Area {
        self.queue.area()
    }

    fn take(&self, held: &GateGuard<'_>) -> Option<Raw<usize>> {
        self.queue.take(held)
    }

    unsafe fn element(&self, raw: Raw<usize>) -> usize {
        // SAFETY: the caller guarantees that `take`, which forwards to the queue, returned `raw`
        // once.
        unsafe { self.queue.element(raw) }
    }

    fn seems_occupied(&self, cpu: usize) -> bool {
        let mut gap = self.gap.lock().unwrap();
        match cpu {
            0 => !(self.is_empty)(self.queue, &mut **gap),
            _ => self.queue.seems_occupied(cpu),
        }
    }

    fn count(&self, held: &GateGuard<'_>) -> usize {
        self.queue.count(held)
    }
}

/// Returns how many calls of `steal_from` and `drain` there were for a queue of `elements`
/// elements, and how many found nothing, with that check.
fn find_nothing(
    elements: usize,
    is_empty: fn(&Queue<usize>, Gap<'_>) -> bool,
) -> [(usize, usize); 2] {
    let calls: [fn(&Meanwhile<'_, '_>) -> Option<usize>; 2] = [
        |queue| remote::steal_from(queue, 0),
        |queue| Drain::new(queue).next(),
    ];
    calls.map(|call| {
        let finds_nothing = |queue: &Queue<usize>, gap: Gap<'_>| {
            let gap = Mutex::new(gap);
            let meanwhile = Meanwhile {
                queue,
                gap,
                is_empty,
            };
            call(&meanwhile).is_none()
        };
        run_checks(finds_nothing, elements)
    })
}

/// 77,760 calls.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn steal_and_drain_find_an_element_in_a_queue_that_is_never_empty() {
    for elements in [1, FIRST_CELLS - 2] {
        let found = find_nothing(elements, |queue, gap| queue.was_empty(0, gap));
        for (calls, nothing) in found {
            assert!(calls > 10_000);
            assert_eq!(nothing, 0, "of {calls} calls with {elements} elements");
        }
    }
}

/// The control: head and tail are read one after the other.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn steal_and_drain_after_a_check_without_numbers_are_detected() {
    let pair = |queue: &Queue<usize>, gap: Gap<'_>| {
        let head = queue.area.peek(0, HEAD);
        gap();
        queue.area.peek(0, TAIL) == head
    };
    let found = find_nothing(FIRST_CELLS - 2, pair);
    assert!(found.iter().all(|(_, nothing)| *nothing > 0));
}

/// When memory is scarce, smaller chunks are requested. The next chunk is at most twice as large as
/// the last one that was mapped.
#[test]
fn chunks_are_smaller_when_memory_is_scarce() {
    let chunks = Chunks::new();
    let count = |chain: Option<(usize, usize)>| {
        chain.map(|(first, last)| (last - first) / size_of::<Cell>() + 2)
    };
    let cells = |bytes: usize| Some(bytes / size_of::<Cell>());
    let up_to = |limit| move |bytes| (bytes <= limit).then(|| platform::map(bytes)).flatten();
    let all = up_to(usize::MAX);
    for doubling in 0..9 {
        assert_eq!(count(chunks.new_chain(all)), cells(4096 << doubling));
    }
    assert_eq!(chunks.new_chain(up_to(0)), None);
    // The refused request has not changed the size.
    assert_eq!(count(chunks.new_chain(all)), cells(1 << 20));
    assert_eq!(count(chunks.new_chain(up_to(5000))), cells(4096));
    assert_eq!(count(chunks.new_chain(all)), cells(8192));
}
