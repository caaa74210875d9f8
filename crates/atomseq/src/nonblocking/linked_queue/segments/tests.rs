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
        let (segment, number) = queue.segment(&queue.tail);
        let place = queue.claim(segment, number, &mut Backoff::new());
        Stopped {
            queue,
            segment,
            place: place.expect("a place in this segment"),
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
