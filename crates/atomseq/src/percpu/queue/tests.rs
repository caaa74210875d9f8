//! Queues: what comes out is what went in, once and in order, and what is left is dropped.

use std::sync::Arc;

use super::*;

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
    let held = queue.area.close(0);
    for value in 0..FIRST_CELLS * 10 {
        // SAFETY: as in `push`, and the gate is held.
        while !unsafe { push::gated(&held, value) } {
            let (first, last) = queue.new_chain().unwrap();
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
