//! Tests of `LinkedStack`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn it_matches_its_model() {
    for mechanism in MECHANISMS {
        let (stack, mut model) = (LinkedStack::forced(mechanism), VecDeque::new());
        let mut seed = 1u64;
        for step in 0..600 {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // Empties the stack now and then.
            let pops = step % 40 > 25;
            match (seed >> 62, pops) {
                (0, false) => {
                    stack.push(seed).unwrap();
                    model.push_front(seed);
                }
                (1, false) => {
                    stack.push_back(seed).unwrap();
                    model.push_back(seed);
                }
                _ => assert_eq!(stack.pop(), model.pop_front()),
            }
            assert_eq!(
                (stack.len(), stack.is_empty()),
                (model.len(), model.is_empty())
            );
        }
        let rest: Vec<u64> = stack.drain().collect();
        assert_eq!(rest, Vec::from(model));
    }
}

/// Counts its drops, and is larger than a word.
struct Counted(usize, Arc<Vec<AtomicUsize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1[self.0].fetch_add(1, Ordering::Relaxed);
    }
}

/// Values are dropped once: by threads that pop them while others push, or with the stack.
#[test]
fn nothing_is_lost_or_duplicated_and_the_tail_keeps_its_order() {
    const EACH: usize = rounds(1_500);
    for mechanism in MECHANISMS {
        let stack = LinkedStack::forced(mechanism);
        let dropped: Arc<Vec<_>> = Arc::new((0..4 * EACH).map(|_| AtomicUsize::new(0)).collect());
        let (taken, patience) = (AtomicUsize::new(0), &Patience::new());
        std::thread::scope(|scope| {
            for producer in 0..2 {
                let (stack, dropped) = (&stack, &dropped);
                scope.spawn(move || {
                    for number in 0..EACH {
                        // Values with an even number go to the tail.
                        let value = 4 * number + producer;
                        stack.push_back(Counted(value, dropped.clone())).unwrap();
                        stack.push(Counted(value + 2, dropped.clone())).unwrap();
                    }
                });
                let taken = &taken;
                scope.spawn(move || {
                    // The last value of each producer that went to the tail.
                    let mut last = [None; 2];
                    while taken.load(Ordering::Relaxed) < 4 * EACH - 8 {
                        let Some(value) = stack.pop() else {
                            patience.wait();
                            continue;
                        };
                        taken.fetch_add(1, Ordering::Relaxed);
                        if value.0 % 4 < 2 {
                            let last = &mut last[value.0 % 4];
                            assert!(*last < Some(value.0), "out of order");
                            *last = Some(value.0);
                        }
                    }
                });
            }
        });
        drop(stack);
        let once = |count: &AtomicUsize| count.load(Ordering::Relaxed) == 1;
        assert!(dropped.iter().all(once));
    }
}

/// Deliberate ABA: between the reads and the change, the top node is popped and pushed again.
#[test]
fn a_reused_node_is_detected_by_the_version() {
    for mechanism in MECHANISMS {
        let stack = LinkedStack::forced(mechanism);
        for value in [3, 2, 1] {
            stack.push(value).unwrap();
        }
        let mut looks = 0;
        let popped = stack.pop_between(|version| {
            looks += 1;
            if looks == 1 {
                assert_eq!((stack.pop(), stack.pop()), (Some(1), Some(2)));
                come_back(&stack);
            }
            version
        });
        assert_eq!((popped, looks), (Some(5), 2));
        assert_eq!(stack.drain().collect::<Vec<_>>(), [3, 4]);
        // Pushes around a push to an empty stack too.
        let mut looks = 0;
        let pushed = stack.push_between(6, |version| {
            looks += 1;
            if looks == 1 {
                stack.push(7).unwrap();
                stack.push_back(8).unwrap();
            }
            version
        });
        assert_eq!((pushed.is_ok(), looks), (true, 2));
        assert_eq!(stack.drain().collect::<Vec<_>>(), [6, 7, 8]);
    }
}

/// The pool reuses the node freed last first. So the node that was second goes to the tail, and the
/// one that was on top returns there, with another link.
fn come_back(stack: &LinkedStack<u64>) {
    stack.push_back(4).unwrap();
    stack.push(5).unwrap();
}

/// Negative control: with a later version, the node that returned corrupts the stack.
#[test]
fn without_the_version_a_reused_node_corrupts_the_stack() {
    let stack = LinkedStack::forced(Mechanism::Assisted);
    for value in [3, 2, 1] {
        stack.push(value).unwrap();
    }
    let gap = |_| {
        assert_eq!((stack.pop(), stack.pop()), (Some(1), Some(2)));
        come_back(&stack);
        stack.version()
    };
    // SAFETY: the closure returns a later version, against the condition. The only consequence here
    // is that a number is lost.
    let popped = unsafe { stack.pop_at(gap) };
    assert_eq!(popped, Some(5));
    // 3 is lost.
    assert_eq!(stack.drain().collect::<Vec<_>>(), [4]);
}

#[test]
fn a_limit_is_kept() {
    assert!(LinkedStack::<u8>::try_with_limit(0).is_err());
    let stack = LinkedStack::try_with_limit(100).unwrap();
    let pushed = (0..200).take_while(|value| stack.push(*value).is_ok());
    assert_eq!(pushed.count(), stack.limit());
    let refused = stack.push_back(7).unwrap_err();
    assert_eq!(refused.value, 7);
    assert_eq!(stack.pop(), Some(99));
    stack.push_back(7).unwrap();
}

/// Whatever happens between the reads and the change, reads of an older version do not count.
#[test]
fn old_reads_do_not_count_at_a_new_version() {
    for mechanism in MECHANISMS {
        let stack = LinkedStack::forced(mechanism);
        for value in 0..4 {
            stack.push(Box::new(value)).unwrap();
        }
        let mut between = Vec::new();
        let first = stack.pop_between(|version| {
            if between.is_empty() {
                between.extend(stack.pop());
                return stack.version();
            }
            version
        });
        stack
            .push_between(Box::new(4), |version| {
                if between.len() == 1 {
                    between.extend(stack.pop());
                    return stack.version();
                }
                version
            })
            .unwrap();
        let all = first.into_iter().chain(between).chain(stack.drain());
        let mut all: Vec<i32> = all.map(|value| *value).collect();
        all.sort();
        assert_eq!(all, [0, 1, 2, 3, 4], "{mechanism:?}");
    }
}

#[test]
fn a_queue_returns_values_in_the_order_of_their_pushes() {
    for mechanism in MECHANISMS {
        let queue = LinkedQueue::forced(mechanism);
        for round in 0..3u64 {
            (0..100).for_each(|value| queue.push(round * 1000 + value).unwrap());
            assert_eq!((queue.len(), queue.is_empty()), (100, false));
            for value in 0..100 {
                assert_eq!(queue.pop(), Some(round * 1000 + value));
            }
            assert_eq!((queue.pop(), queue.len()), (None, 0));
        }
    }
    let mut queue: LinkedQueue<String> = ["a", "b"].map(String::from).into_iter().collect();
    queue.extend(["c".to_owned()]);
    assert_eq!(queue.pop().as_deref(), Some("a"));
    assert_eq!(queue.into_iter().collect::<Vec<_>>(), ["b", "c"]);
    let full = LinkedQueue::try_with_limit(1).unwrap();
    let pushed = (0..=full.limit()).map(|value| full.push(value));
    assert_eq!(pushed.filter(Result::is_err).count(), 1);
}

/// Limits are exact, whichever segments the values are in.
#[test]
fn a_queue_holds_as_many_values_as_its_limit_says() {
    let queue = LinkedQueue::try_with_limit(40).unwrap();
    for round in 0..5 {
        for value in 0..40 {
            queue.push(Box::new(round * 100 + value)).unwrap();
        }
        let refused = queue.push(Box::new(7)).unwrap_err();
        assert_eq!(refused.reason, crate::type_stable::Error::LimitReached);
        assert_eq!((*refused.value, queue.len(), queue.limit()), (7, 40, 40));
        assert_eq!(queue.pop().as_deref(), Some(&(round * 100)));
        queue.push(Box::new(8)).unwrap();
        assert_eq!(queue.drain().count(), 40);
    }
    let none = LinkedQueue::<u8>::try_with_limit(0).err();
    assert_eq!(none, Some(crate::type_stable::Error::Zero));
    let many = LinkedQueue::<u8>::try_with_limit(usize::MAX).err();
    assert_eq!(many, Some(crate::type_stable::Error::TooLarge));
}

/// Values of every size and alignment are moved in and out.
#[test]
fn a_queue_holds_values_of_any_type() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(256))]
    struct Wide([u8; 700]);

    fn passes<T: Send + Copy + PartialEq + std::fmt::Debug>(value: T) {
        let queue = LinkedQueue::new();
        (0..100).for_each(|_| queue.push(value).unwrap());
        assert!(queue.drain().take(99).all(|popped| popped == value));
        assert_eq!(
            (queue.len(), queue.pop(), queue.pop()),
            (1, Some(value), None)
        );
    }

    passes(());
    passes((1u8, 2u32));
    passes(Wide([3; 700]));
}

/// Values are dropped once: by threads that pop them while others push, or with the queue.
#[test]
fn a_queue_loses_and_duplicates_nothing_and_keeps_the_order_of_each_producer() {
    const EACH: usize = rounds(3_000);
    for mechanism in MECHANISMS {
        let queue = LinkedQueue::forced(mechanism);
        let dropped: Arc<Vec<_>> = Arc::new((0..2 * EACH).map(|_| AtomicUsize::new(0)).collect());
        let (taken, patience) = (AtomicUsize::new(0), &Patience::new());
        std::thread::scope(|scope| {
            for producer in 0..2 {
                let (queue, dropped) = (&queue, &dropped);
                scope.spawn(move || {
                    for number in 0..EACH {
                        let value = Counted(producer * EACH + number, Arc::clone(dropped));
                        assert!(queue.push(value).is_ok());
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = [None; 2];
                    // Leaves some values for the queue to drop.
                    while taken.load(Ordering::Relaxed) < 2 * EACH - 50 {
                        let Some(value) = queue.pop() else {
                            patience.wait();
                            continue;
                        };
                        taken.fetch_add(1, Ordering::Relaxed);
                        let (producer, number) = (value.0 / EACH, Some(value.0 % EACH));
                        assert!(last[producer] < number);
                        last[producer] = number;
                    }
                });
            }
        });
        assert!(queue.len() <= 50);
        drop(queue);
        let counts = dropped.iter().map(|count| count.load(Ordering::Relaxed));
        assert!(counts.into_iter().all(|count| count == 1));
    }
}

/// A destructor that panics does not keep the other values.
#[test]
fn a_queue_drops_all_values_even_if_one_panics() {
    struct Panics<'a>(u32, &'a AtomicUsize);
    impl Drop for Panics<'_> {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            assert_ne!(self.0, 40, "this one");
        }
    }
    let dropped = AtomicUsize::new(0);
    let queue = LinkedQueue::new();
    (0..100).for_each(|number| _ = queue.push(Panics(number, &dropped)));
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(queue)));
    assert!(unwound.is_err());
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
}
