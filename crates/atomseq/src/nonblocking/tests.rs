//! Every structure by each mechanism.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::dcas::Mechanism;

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

#[test]
fn the_last_comes_first() {
    for mechanism in MECHANISMS {
        let stack = Stack::forced(3, mechanism);
        assert_eq!(stack.pop(), None::<u64>);
        for value in [1, u64::MAX, 0] {
            stack.push(value).unwrap();
        }
        assert_eq!((stack.push(4), stack.len()), (Err(4), 3));
        assert_eq!([stack.pop(), stack.pop()], [Some(0), Some(u64::MAX)]);
        stack.push(5).unwrap();
        assert_eq!(
            [stack.pop(), stack.pop(), stack.pop()],
            [Some(5), Some(1), None]
        );
    }
}

#[test]
fn what_is_left_is_dropped() {
    for mechanism in MECHANISMS {
        let value = Arc::new(());
        let stack = Stack::forced(10, mechanism);
        (0..7).for_each(|_| stack.push(value.clone()).unwrap());
        drop(stack.pop());
        drop(stack);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn nothing_is_lost_or_doubled() {
    const EACH: usize = 5_000;
    for mechanism in MECHANISMS {
        let stack = Stack::forced(8, mechanism);
        let seen: Vec<AtomicUsize> = (0..2 * EACH).map(|_| AtomicUsize::new(0)).collect();
        let taken = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for start in [0, EACH] {
                let stack = &stack;
                scope.spawn(move || {
                    for value in start..start + EACH {
                        let mut value = Box::new(value);
                        while let Err(back) = stack.push(value) {
                            value = back;
                            std::thread::yield_now();
                        }
                    }
                });
                let (seen, taken) = (&seen, &taken);
                scope.spawn(move || {
                    while taken.load(Ordering::Relaxed) < 2 * EACH {
                        match stack.pop() {
                            Some(value) => {
                                seen[*value].fetch_add(1, Ordering::Relaxed);
                                taken.fetch_add(1, Ordering::Relaxed);
                            }
                            None => std::thread::yield_now(),
                        }
                    }
                });
            }
        });
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(Stack::<u8>::try_new(0).err(), Some(Error::ZeroCapacity));
    let most = Stack::<u8>::try_new(usize::MAX).err();
    assert_eq!(most, Some(Error::OutOfMemory));
}
