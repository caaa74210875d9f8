//! Tests of `OneVisitorList` under both mechanisms: in sequence, and by many threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn list_of<T: Send>(
    mechanism: Mechanism,
    values: impl IntoIterator<Item = T>,
) -> OneVisitorList<T> {
    let mut list = OneVisitorList::forced(mechanism);
    list.extend(values);
    list
}

fn free_values(list: &OneVisitorList<i32>) -> Vec<i32> {
    let mut values = Vec::new();
    list.for_each(|value| values.push(*value));
    values
}

#[test]
fn visited_values_are_skipped() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, 0..4);
        let mut first = list.visit_first().unwrap();
        let third = list.visit_first().unwrap().into_next().unwrap();
        assert_eq!((*first, *third), (3, 1));
        assert_eq!(free_values(&list), [2, 0]);
        *first += 10;
        assert!(third.next().is_some_and(|last| *last == 0));
        assert_eq!(list.pop_front(), Some(2));
        third.insert_behind(7).unwrap();
        drop(first);
        assert_eq!(third.remove(), 1);
        assert_eq!(free_values(&list), [13, 7, 0]);
        assert_eq!((list.len(), list.is_empty()), (3, false));
        // To the end and not beyond; the last visit has ended.
        let last = list.visit_first().unwrap().into_next().unwrap().into_next();
        assert!(last.unwrap().into_next().is_none());
        assert_eq!(free_values(&list), [13, 7, 0]);
        list.retain(|value| *value == 7);
        assert_eq!(free_values(&list), [7]);
        assert_eq!(list.pop_front().zip(list.pop_front()), None);
    }
}

/// The visit of an exited thread is never dropped. Its value stays, and does not block any
/// operation.
#[test]
fn the_value_of_an_exited_visitor_is_skipped() {
    for mechanism in MECHANISMS {
        let value = std::sync::Arc::new(1);
        let list = list_of(mechanism, [value.clone(), value.clone(), value.clone()]);
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(list.visit_first().unwrap().next()));
        });
        // The visit of the first value has ended; that of the second never will.
        list.push_front(value.clone()).unwrap();
        assert_eq!(std::iter::from_fn(|| list.pop_front()).count(), 3);
        assert_eq!((list.len(), list.pop_front()), (1, None));
        drop(list);
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    }
}

#[test]
fn a_limit_is_kept() {
    let list = OneVisitorList::try_with_limit(2).unwrap();
    list.push_front(Box::new(1)).unwrap();
    list.push_front(Box::new(2)).unwrap();
    let refused = list.push_front(Box::new(3)).unwrap_err();
    assert_eq!((*refused.value, list.limit()), (3, 2));
    let visit = list.visit_first().unwrap();
    let refused = visit.insert_behind(Box::new(4)).unwrap_err();
    assert_eq!(*refused.value, 4);
    drop(visit);
    for value in 0..1000 {
        assert!(list.pop_front().is_some());
        list.push_front(Box::new(value)).unwrap();
    }
}

/// Several threads insert, remove, and change values without atomics: each visit is exclusive.
#[test]
fn visits_are_exclusive() {
    struct Task {
        steps: u64,
        sum: [u64; 4],
    }
    const TASKS: usize = 6;
    for mechanism in MECHANISMS {
        let each = rounds(300 * SCALE) as u64;
        let new = |_| Task {
            steps: 0,
            sum: [0; 4],
        };
        let list = list_of(mechanism, (0..TASKS).map(new));
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (list, ended) = (&list, &ended);
                scope.spawn(move || {
                    let mut round = number;
                    while ended.load(Ordering::Relaxed) < TASKS {
                        round += 1;
                        list.retain(|task| {
                            task.steps += 1;
                            task.sum.iter_mut().for_each(|sum| *sum += 2);
                            if task.steps < each {
                                return true;
                            }
                            assert_eq!(task.sum, [2 * each; 4]);
                            ended.fetch_add(1, Ordering::Relaxed);
                            false
                        });
                        if round % 5 == 0 {
                            if let Some(task) = list.pop_front() {
                                let back = list.push_front(task);
                                assert!(back.is_ok());
                            }
                        }
                    }
                });
            }
        });
        assert!(list.is_empty());
    }
}

/// A number, and where its drops are counted.
struct Counted<'a>(usize, &'a [AtomicUsize]);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.1[self.0].fetch_add(1, Ordering::Relaxed);
    }
}

/// Several threads insert values, replace them during visits, and remove them; the rest is dropped
/// with the list.
#[test]
fn every_value_is_dropped_once() {
    const THREADS: usize = 4;
    for mechanism in MECHANISMS {
        let each = rounds(400 * SCALE);
        let dropped: Vec<_> = (0..THREADS * each).map(|_| AtomicUsize::new(0)).collect();
        let list = list_of(mechanism, []);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (list, dropped) = (&list, &dropped[..]);
                scope.spawn(move || {
                    for number in thread * each..(thread + 1) * each {
                        let value = Counted(number, dropped);
                        match list.visit_first().filter(|_| number % 3 == 0) {
                            Some(mut visit) => *visit = value,
                            None => assert!(list.push_front(value).is_ok()),
                        }
                        match number % 4 {
                            0 => drop(list.pop_front()),
                            1 => drop(list.visit_first().map(|visit| visit.remove())),
                            2 => list.retain(|value| value.0 % 7 != 0),
                            _ => {}
                        }
                    }
                });
            }
        });
        let count = || dropped.iter().map(|count| count.load(Ordering::Relaxed));
        assert!(count().all(|drops| drops <= 1));
        assert_eq!(count().sum::<usize>() + list.len(), THREADS * each);
        drop(list);
        assert!(count().all(|drops| drops == 1));
    }
}

/// A value that an exited thread visited is removed, and not dropped; nothing else is.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_frees_what_exited_threads_held() {
    let time = std::time::Duration::from_millis(2);
    for mechanism in MECHANISMS {
        let list = OneVisitorList::forced(mechanism);
        (0..4).for_each(|value| list.push_front(value).unwrap());
        let audit = || {
            std::thread::sleep(2 * time);
            // SAFETY: the only thread is here, inside no operation and no visit.
            unsafe { list.audit(time) }
        };
        assert_eq!([audit(), audit()].map(|it| it.unclaimed), [0, 0]);
        std::mem::forget(list.visit_first());
        std::mem::forget(list.chain.allocate());
        assert_eq!(
            [audit(), audit()].map(|it| it.unclaimed),
            [0, 2],
            "{mechanism:?}"
        );
        let after = audit();
        assert_eq!((after.allocated, after.unclaimed), (3, 0), "{mechanism:?}");

        // Visits that begin and end between audits.
        for _ in 0..3 {
            drop(list.visit_first());
            assert_eq!(audit().unclaimed, 0, "{mechanism:?}");
        }
        // A visit that an audit has seen, after which another begins.
        let visit = list.visit_first();
        audit();
        drop(visit);
        let visit = list.visit_first().unwrap();
        // SAFETY: the visit began just now, so it has not lasted for longer than a minute.
        let found = unsafe { list.audit(std::time::Duration::from_secs(60)) };
        assert_eq!((found.unclaimed, *visit), (0, 2), "{mechanism:?}");
        drop(visit);
        assert_eq!(
            [(); 3].map(|()| list.pop_front()),
            [Some(2), Some(1), Some(0)]
        );
    }
}
