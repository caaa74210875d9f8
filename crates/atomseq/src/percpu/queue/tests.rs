//! Queues: what comes out is what went in, once and in order, and what is left is dropped.

use std::sync::{Arc, Mutex};

use super::*;
use crate::platform;

#[test]
fn first_in_first_out_on_each_cpu_while_growing() {
    let queue = Queue::new();
    let mut left: Vec<usize> = Vec::new();
    for value in 0..10_000 {
        queue.push(value).unwrap();
        if value % 3 == 0 {
            left.extend(queue.pop());
        }
    }
    // A thread may have moved, so order holds within what each CPU gave.
    left.extend(queue.drain());
    left.sort_unstable();
    assert_eq!(left, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn the_oldest_leaves_first() {
    let queue = Queue::new();
    let held = queue.area.close_gate(0);
    for value in 0..FIRST_CELLS * 10 {
        // SAFETY: as in `push`, and the gate is held.
        while !unsafe { push::gated(&held, value) } {
            let (first, last) = queue.chunks.new_chain(platform::map).unwrap();
            // SAFETY: as in `push_slowly`, and the gate is held.
            unsafe { grow::gated(&held, first, last) };
        }
    }
    let taken = std::iter::from_fn(|| queue.take(&held));
    // SAFETY: just taken; a number needs no gate.
    let taken: Vec<usize> = taken.map(|raw| unsafe { queue.element(raw) }).collect();
    assert_eq!(taken, (0..FIRST_CELLS * 10).collect::<Vec<_>>());
    drop(held);
    assert!(queue.is_empty());
}

#[test]
fn drops_what_it_holds_once() {
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

/// What an owner does in a gap of somebody's look: elements taken out and put in, none of them the
/// last.
fn go_round(queue: &Queue<usize>, taken: usize, put: usize) {
    let held = queue.area.close_gate(0);
    // SAFETY: as in `push` and `pop`, and the gate is held.
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

/// What is called between two loads of a look.
type Gap<'a> = &'a mut (dyn FnMut() + Send);

/// Looks with something between two of the loads, and between two others; returns what all of them
/// said.
fn looks(look: impl Fn(&Queue<usize>, Gap<'_>) -> bool, elements: usize) -> (usize, usize) {
    const GAPS: usize = 6;
    let (mut looks, mut empty) = (0, 0);
    // Several rounds of a ring of 32 cells, and all that is less than one.
    let moves = || (0..=FIRST_CELLS + 1).chain([2 * FIRST_CELLS - 1, 2 * FIRST_CELLS]);
    for (one, another) in (0..GAPS).flat_map(|one| (one + 1..GAPS).map(move |other| (one, other))) {
        for (first, second) in moves().flat_map(|first| moves().map(move |second| (first, second)))
        {
            let queue = Queue::new();
            go_round(&queue, 0, elements);
            let mut at = 0;
            let mut gap = || {
                match at {
                    at if at == one => go_round(&queue, first, first),
                    at if at == another => go_round(&queue, second, second),
                    _ => {}
                }
                at += 1;
            };
            looks += 1;
            empty += usize::from(look(&queue, &mut gap));
        }
    }
    (looks, empty)
}

/// 58,320 looks.
#[test]
fn what_is_never_empty_is_never_found_empty() {
    for elements in [1, 2, FIRST_CELLS - 2] {
        let (looks, empty) = looks(|queue, gap| queue.was_empty(0, gap), elements);
        assert!(looks > 10_000);
        assert_eq!(empty, 0, "of {looks} looks at {elements} elements");
    }
    let queue = Queue::<usize>::new();
    assert!(queue.was_empty(0, || ()));
    assert!(queue.was_empty(0, || go_round(&queue, 0, 0)));
}

/// The test would notice: head and tail read one after the other, and the head once more.
#[test]
fn a_look_without_numbers_is_found_out() {
    let pair = |queue: &Queue<usize>, gap: Gap<'_>| {
        let head = queue.area.peek(0, 0);
        gap();
        queue.area.peek(0, 1) == head
    };
    let thrice = |queue: &Queue<usize>, gap: Gap<'_>| {
        let head = queue.area.peek(0, 0);
        gap();
        let same = queue.area.peek(0, 1) == head;
        gap();
        same && queue.area.peek(0, 0) == head
    };
    let elements = FIRST_CELLS - 2;
    assert!(looks(pair, elements).1 > 0 && looks(thrice, elements).1 > 0);
}

/// A queue whose owner does something in the gaps of the look with which `steal_from` and `drain`
/// begin.
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
        // SAFETY: the caller's promise.
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

/// How often `steal_from` and `drain` find nothing in a queue of so many elements, with that look;
/// and how often they are called.
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
        looks(finds_nothing, elements)
    })
}

/// 77,760 calls.
#[test]
fn stealing_and_draining_find_something_in_what_is_never_empty() {
    for elements in [1, FIRST_CELLS - 2] {
        let found = find_nothing(elements, |queue, gap| queue.was_empty(0, gap));
        for (calls, nothing) in found {
            assert!(calls > 10_000);
            assert_eq!(nothing, 0, "of {calls} calls with {elements} elements");
        }
    }
}

/// The control: head and tail read one after the other.
#[test]
fn stealing_and_draining_after_a_look_without_numbers_are_found_out() {
    let pair = |queue: &Queue<usize>, gap: Gap<'_>| {
        let head = queue.area.peek(0, 0);
        gap();
        queue.area.peek(0, 1) == head
    };
    let found = find_nothing(FIRST_CELLS - 2, pair);
    assert!(found.iter().all(|(_, nothing)| *nothing > 0));
}

/// Near a limit, less memory is better than none, and is asked for; the next chunk is no larger
/// than twice the last one that was had.
#[test]
fn where_there_is_little_memory_chunks_are_small() {
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
    // What was refused has changed nothing.
    assert_eq!(count(chunks.new_chain(all)), cells(1 << 20));
    assert_eq!(count(chunks.new_chain(up_to(5000))), cells(4096));
    assert_eq!(count(chunks.new_chain(all)), cells(8192));
}
