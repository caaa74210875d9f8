//! Tests of segments: threads that stop in the middle of an operation, and continue or do not.

use super::*;

fn queues() -> [Segments<u64>; 2] {
    [Adjacent::new, Adjacent::by_kcas].map(|pair| Segments::new(pair).unwrap())
}

/// A push that has claimed a place and is stopped there.
struct Stopped<'a> {
    queue: &'a Segments<u64>,
    segment: &'a Segment<u64>,
    place: u64,
}

impl<'a> Stopped<'a> {
    fn push(queue: &'a Segments<u64>) -> Stopped<'a> {
        loop {
            let (segment, number) = queue.segment(&queue.tail);
            if let Some(place) = queue.claim(segment, number, &mut Backoff::new()) {
                return Stopped {
                    queue,
                    segment,
                    place,
                };
            }
            queue.extend(segment, number).unwrap();
        }
    }

    /// Continues. Returns whether the value is in the queue.
    fn fill(self, value: u64) -> bool {
        let (cell, base) = (self.segment.cell(self.place), 4 * (self.place / CELLS));
        // SAFETY: `push` has claimed the cell, and this is called once.
        unsafe { (*cell.value.get()).write(value) };
        let filled = exchange(&cell.state, base + CLAIMED, base + FULL);
        if !filled {
            self.queue.is_through(self.segment);
        }
        filled
    }
}

#[test]
fn a_stopped_push_is_overtaken() {
    for queue in queues() {
        queue.push(1).unwrap();
        let stopped = Stopped::push(&queue);
        (3..6).for_each(|value| queue.push(value).unwrap());
        assert!(!queue.is_empty());
        let popped: Vec<u64> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(popped, [1, 3, 4, 5]);
        assert!(!stopped.fill(2));
        assert_eq!(queue.pop(), None);
    }
}

#[test]
fn a_push_that_nothing_overtakes_is_not_revoked() {
    for queue in queues() {
        let stopped = Stopped::push(&queue);
        assert_eq!((queue.pop(), queue.is_empty()), (None, true));
        assert!(stopped.fill(7));
        assert_eq!((queue.is_empty(), queue.len()), (false, 1));
        assert_eq!((queue.pop(), queue.pop()), (Some(7), None));
    }
}

/// If each claim could revoke another one, two pushes and a pop might make no progress.
#[test]
fn claims_revoke_no_claims() {
    for queue in queues() {
        // Up to the end of a segment, and beyond.
        for rounds in [1, CELLS - 4, 1] {
            for value in 0..rounds {
                queue.push(value).unwrap();
                assert_eq!(queue.pop(), Some(value));
            }
            let [first, second] = [(); 2].map(|()| Stopped::push(&queue));
            assert_eq!(
                (queue.pop(), queue.is_empty(), queue.len()),
                (None, true, 0)
            );
            assert!(second.fill(2));
            assert_eq!(queue.pop(), Some(2));
            assert!(!first.fill(1));
        }
        let [first, second] = [(); 2].map(|()| Stopped::push(&queue));
        assert_eq!(queue.pop(), None);
        assert!(first.fill(1));
        assert_eq!((queue.pop(), queue.pop()), (Some(1), None));
        assert!(second.fill(2));
        assert_eq!((queue.pop(), queue.pop()), (Some(2), None));
    }
}

/// What is counted does not depend on what becomes of a claim.
#[test]
fn the_length_revokes_claims() {
    for queue in queues() {
        let stopped = Stopped::push(&queue);
        queue.push(2).unwrap();
        let last = Stopped::push(&queue);
        assert_eq!(queue.len(), 1);
        assert!(!stopped.fill(1));
        assert!(!last.fill(3));
        assert_eq!((queue.len(), queue.pop(), queue.len()), (1, Some(2), 0));
    }
}

/// By k-CAS, an end is moved in steps. A thread that stops between them does not block the others.
#[test]
fn an_end_that_a_stopped_thread_has_half_moved_is_moved() {
    for is_head in [false, true] {
        let queue: &'static _ = Box::leak(Box::new(Segments::new(Adjacent::by_kcas).unwrap()));
        (0..CELLS).for_each(|value| queue.push(value).unwrap());
        let (segment, number) = queue.segment(&queue.tail);
        queue.extend(segment, number).unwrap();
        let end = match is_head {
            true => {
                (0..CELLS).for_each(|value| assert_eq!(queue.pop(), Some(value)));
                &queue.head
            }
            false => &queue.tail,
        };
        let Next::Segment(next) = queue.next(segment, number) else {
            panic!("a segment was added");
        };
        end.segment.stop_in_exchange((address(next), number + 1));
        let (report, reported) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            queue.push(CELLS).unwrap();
            let popped = std::iter::from_fn(|| queue.pop()).last();
            report.send((popped, queue.len())).unwrap();
        });
        let others = reported.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(others, Ok((Some(CELLS), 0)));
    }
}

/// Many pass. Returns whether one of them used the segment.
fn reuses(queue: &Segments<u64>, segment: &Segment<u64>) -> bool {
    let mut seen = false;
    for value in 0..100 * CELLS {
        queue.push(value).unwrap();
        seen |= std::ptr::eq(queue.segment(&queue.tail).0, segment);
        assert_eq!(queue.pop(), Some(value));
    }
    seen
}

#[test]
fn a_stopped_thread_withholds_its_segment_alone() {
    for queue in queues() {
        let stopped = Stopped::push(&queue);
        let segment = stopped.segment;
        // Leaves the segment.
        for value in 0..2 * CELLS {
            queue.push(value).unwrap();
            assert_eq!(queue.pop(), Some(value));
        }
        assert!(!reuses(&queue, segment));
        assert!(!stopped.fill(1));
        assert!(reuses(&queue, segment));
    }
}

/// A thread that was delayed since it has read an end changes nothing.
#[test]
fn delayed_operations_fail() {
    for queue in queues() {
        let (segment, number) = queue.segment(&queue.tail);
        let mut pairs = 0;
        while pairs < 2 * CELLS || !std::ptr::eq(queue.segment(&queue.tail).0, segment) {
            queue.push(pairs).unwrap();
            assert_eq!(queue.pop(), Some(pairs));
            pairs += 1;
        }
        let (_, later) = queue.segment(&queue.tail);
        assert!(later > number);
        assert_eq!(queue.claim(segment, number, &mut Backoff::new()), None);
        assert!(matches!(queue.next(segment, number), Next::Reused));
        queue.extend(segment, number).unwrap();
        queue.advance(&queue.tail, segment, number, segment);
        assert!(matches!(queue.next(segment, later), Next::Nothing(_)));
        queue.push(1).unwrap();
        assert_eq!((queue.pop(), queue.pop()), (Some(1), None));
    }
}

/// A thread that continues after a stop may move a hint back. The others then pass all places of a
/// segment, and none of them is a reason for longer pauses.
#[test]
fn a_late_hint_costs_no_long_pauses() {
    for queue in queues() {
        for value in 0..CELLS - 1 {
            queue.push(value).unwrap();
            assert_eq!(queue.pop(), Some(value));
        }
        queue.push(7).unwrap();
        let mut backoff = pauses();
        queue.head.hint.store(0, Ordering::Relaxed);
        assert!(queue.first(&mut backoff).is_some());
        assert_eq!(backoff, pauses());
        queue.tail.hint.store(0, Ordering::Relaxed);
        let (segment, number) = queue.segment(&queue.tail);
        assert_eq!(queue.claim(segment, number, &mut backoff), None);
        assert_eq!(backoff, pauses());
        assert_eq!((queue.pop(), queue.pop()), (Some(7), None));
    }
}
