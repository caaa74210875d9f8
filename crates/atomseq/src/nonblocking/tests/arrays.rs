//! Tests of `Stack` and `Queue`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::AsWord;

/// What both have in common.
trait Structure<T: AsWord>: Sync + Sized {
    fn forced(capacity: usize, mechanism: Mechanism) -> Self;
    fn push(&self, value: T) -> Result<(), T>;
    fn pop(&self) -> Option<T>;
    fn len(&self) -> usize;
    fn is_full(&self) -> bool;
    /// Takes out of the model what the structure takes out next.
    fn next(model: &mut VecDeque<T>) -> Option<T>;
}

macro_rules! structure {
    ($name:ident $next:ident $forced:expr) => {
        impl<T: AsWord + Send> Structure<T> for $name<T> {
            fn forced(capacity: usize, mechanism: Mechanism) -> Self {
                let forced: fn(usize, Mechanism) -> $name<T> = $forced;
                forced(capacity, mechanism)
            }
            fn push(&self, value: T) -> Result<(), T> {
                $name::push(self, value)
            }
            fn pop(&self) -> Option<T> {
                $name::pop(self)
            }
            fn len(&self) -> usize {
                $name::len(self)
            }
            fn is_full(&self) -> bool {
                $name::is_full(self)
            }
            fn next(model: &mut VecDeque<T>) -> Option<T> {
                model.$next()
            }
        }
    };
}

structure!(Stack pop_back Stack::forced);
structure!(Queue pop_front |capacity, mechanism| match mechanism {
    Mechanism::Assisted => Queue::with_capacity(capacity),
    Mechanism::Kcas => Queue::by_kcas(capacity),
});

/// Compares with a deque, with values of all bits of a word, and across each end of the array.
fn matches_its_model<S: Structure<usize>>() {
    for mechanism in MECHANISMS {
        for capacity in [1, 2, 3, 5, 8] {
            let (structure, mut model) = (S::forced(capacity, mechanism), VecDeque::new());
            let mut seed = 1u64;
            for _ in 0..rounds(500) {
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let value = seed as usize;
                if seed >> 63 == 0 {
                    let expected = match model.len() < capacity {
                        true => Ok(()),
                        false => Err(value),
                    };
                    assert_eq!(structure.push(value), expected);
                    if expected.is_ok() {
                        model.push_back(value);
                    }
                } else {
                    let expected = S::next(&mut model);
                    assert_eq!(structure.pop(), expected);
                }
                assert_eq!(structure.len(), model.len());
                assert_eq!(structure.is_full(), model.len() == capacity);
            }
        }
    }
}

#[test]
fn a_stack_matches_its_model() {
    matches_its_model::<Stack<usize>>();
}

#[test]
fn a_queue_matches_its_model() {
    matches_its_model::<Queue<usize>>();
}

fn what_is_left_is_dropped<S: Structure<Arc<()>>>() {
    for mechanism in MECHANISMS {
        let value = Arc::new(());
        let structure = S::forced(10, mechanism);
        (0..7).for_each(|_| structure.push(value.clone()).unwrap());
        drop(structure.pop());
        drop(structure);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn what_is_left_is_dropped_once() {
    what_is_left_is_dropped::<Stack<Arc<()>>>();
    what_is_left_is_dropped::<Queue<Arc<()>>>();
}

/// Counts its drops.
struct Counted(usize, Arc<Vec<AtomicUsize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1[self.0].fetch_add(1, Ordering::Relaxed);
    }
}

/// Owned values are dropped once: by threads that take them while others push, or with the
/// structure.
fn nothing_is_lost_or_duplicated<S: Structure<Box<Counted>>>(in_order: bool) {
    const EACH: usize = rounds(1_500);
    for mechanism in MECHANISMS {
        let structure = S::forced(8, mechanism);
        let dropped: Arc<Vec<_>> = Arc::new((0..2 * EACH).map(|_| AtomicUsize::new(0)).collect());
        let (taken, patience) = (AtomicUsize::new(0), &Patience::new());
        std::thread::scope(|scope| {
            for start in [0, EACH] {
                let (structure, dropped) = (&structure, &dropped);
                scope.spawn(move || {
                    for value in start..start + EACH {
                        let mut value = Box::new(Counted(value, dropped.clone()));
                        while let Err(back) = structure.push(value) {
                            value = back;
                            patience.wait();
                        }
                    }
                });
                let taken = &taken;
                scope.spawn(move || {
                    // The last value of each producer that this consumer got.
                    let mut last = [None; 2];
                    // Some values stay, to be dropped with the structure.
                    while taken.load(Ordering::Relaxed) < 2 * EACH - 8 {
                        let Some(value) = structure.pop() else {
                            patience.wait();
                            continue;
                        };
                        taken.fetch_add(1, Ordering::Relaxed);
                        let last = &mut last[value.0 / EACH];
                        assert!(!in_order || *last < Some(value.0), "out of order");
                        *last = Some(value.0);
                    }
                });
            }
        });
        drop(structure);
        let once = |count: &AtomicUsize| count.load(Ordering::Relaxed) == 1;
        assert!(dropped.iter().all(once));
    }
}

#[test]
fn a_stack_loses_and_duplicates_nothing() {
    nothing_is_lost_or_duplicated::<Stack<_>>(false);
}

#[test]
fn a_queue_loses_and_duplicates_nothing_and_keeps_each_producers_order() {
    nothing_is_lost_or_duplicated::<Queue<_>>(true);
}

/// The value of a push that was stopped in the middle is not in the stack, whichever operation
/// comes next.
#[test]
fn a_stopped_thread_blocks_no_other() {
    for mechanism in MECHANISMS {
        let structure = Stack::forced(2, mechanism);
        structure.push(1).unwrap();
        let abandoned = structure.abandon();
        assert_eq!(abandoned, mechanism.or_kcas() == Mechanism::Assisted);
        assert_eq!(structure.len(), 1);
        structure.abandon();
        structure.push(2).unwrap();
        structure.abandon();
        assert_eq!(structure.push(3), Err(3));
        structure.abandon();
        let mut both = [structure.pop(), structure.pop()];
        both.sort();
        assert_eq!(both, [Some(1), Some(2)]);
        structure.abandon();
        assert_eq!(structure.pop(), None);
    }
}

/// Revokes holders continually, in all states.
#[test]
fn revoked_holders_lose_nothing() {
    const EACH: usize = rounds(300);
    let stack = Stack::forced(64, Mechanism::Assisted);
    let seen: Vec<AtomicUsize> = (0..2 * EACH).map(|_| AtomicUsize::new(0)).collect();
    let (running, patience) = (AtomicUsize::new(2), &Patience::new());
    std::thread::scope(|scope| {
        for start in [0, EACH] {
            let (stack, seen, running) = (&stack, &seen, &running);
            scope.spawn(move || {
                for value in start..start + EACH {
                    while stack.push(value).is_err() {
                        patience.wait();
                    }
                    let value = loop {
                        match stack.pop() {
                            Some(value) => break value,
                            None => patience.wait(),
                        }
                    };
                    seen[value].fetch_add(1, Ordering::Relaxed);
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while running.load(Ordering::Relaxed) > 0 {
            stack.abandon();
            patience.wait();
        }
    });
    assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    assert!(stack.is_empty());
}

#[test]
fn invalid_capacities_are_refused() {
    assert_eq!(
        Stack::<u8>::try_with_capacity(0).err(),
        Some(Error::ZeroCapacity)
    );
    assert_eq!(
        Queue::<u8>::try_with_capacity(0).err(),
        Some(Error::ZeroCapacity)
    );
    for capacity in [usize::MAX, usize::MAX / 16 + 1] {
        let errors = [
            Stack::<u8>::try_with_capacity(capacity).err(),
            Queue::<u8>::try_with_capacity(capacity).err(),
        ];
        assert_eq!(errors, [Some(Error::OutOfMemory); 2]);
    }
}

#[test]
fn they_are_collected_from_iterators() {
    let stack = Stack::from_iter(1..=3);
    assert_eq!((stack.capacity(), stack.push(4)), (3, Err(4)));
    assert_eq!(stack.drain().collect::<Vec<_>>(), [3, 2, 1]);
    let queue = Queue::from_iter(1..=3);
    assert_eq!((queue.capacity(), queue.push(4)), (3, Err(4)));
    assert_eq!(format!("{queue:?}"), "Queue { len: 3, capacity: 3, .. }");
    assert_eq!(queue.drain().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(Queue::<u8>::from_iter([]).capacity(), 1);
}

#[test]
fn a_stack_reports_its_mechanism() {
    for mechanism in MECHANISMS {
        let used = Stack::<usize>::forced(1, mechanism).mechanism();
        assert_eq!(used, mechanism.or_kcas());
    }
    let chosen = crate::dcas::mechanism();
    assert_eq!(Stack::<usize>::with_capacity(1).mechanism(), chosen);
}
