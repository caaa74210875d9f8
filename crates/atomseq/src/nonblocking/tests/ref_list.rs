//! Tests of `RefList` under both mechanisms: in sequence, with interruptions, and by many threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::type_stable;

fn list_of<T: Send + Sync>(
    mechanism: Mechanism,
    values: impl IntoIterator<Item = T>,
) -> RefList<T> {
    let mut list = RefList::forced(mechanism);
    list.extend(values);
    list
}

fn values<T: Send + Sync + Clone>(list: &RefList<T>) -> Vec<T> {
    list.iter().map(|value| T::clone(&value)).collect()
}

/// A value that detects a use after its drop, and a second drop.
struct Counted<'a> {
    alive: AtomicBool,
    dropped: &'a AtomicUsize,
}

impl<'a> Counted<'a> {
    fn new(dropped: &'a AtomicUsize) -> Counted<'a> {
        let alive = AtomicBool::new(true);
        Counted { alive, dropped }
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::SeqCst)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        assert!(self.alive.swap(false, Ordering::SeqCst), "dropped twice");
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_newest_comes_first() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, ["a", "b", "c"].map(String::from));
        assert_eq!(values(&list), ["c", "b", "a"]);
        assert_eq!((list.len(), list.is_empty()), (3, false));
        assert_eq!(format!("{list:?}"), r#"["c", "b", "a"]"#);
        let b = list.find(|value| value == "b").unwrap();
        assert!(!b.is_removed() && list.remove(&b));
        assert!(b.is_removed() && !list.remove(&b));
        assert_eq!(values(&list), ["c", "a"]);
        assert_eq!(*list.pop_front().unwrap(), "c");
        assert_eq!(*list.pop_front().unwrap(), "a");
        assert!(list.pop_front().is_none() && list.is_empty() && list.front().is_none());
        assert_eq!(*b, "b");
    }
}

#[test]
fn a_removed_value_is_dropped_with_its_last_guard() {
    for mechanism in MECHANISMS {
        let dropped = AtomicUsize::new(0);
        let list = list_of(mechanism, (0..3).map(|_| Counted::new(&dropped)));
        let first = list.pop_front().unwrap();
        let second = first.clone();
        drop(first);
        assert!(second.is_alive() && dropped.load(Ordering::SeqCst) == 0);
        drop(second);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        // Dropping guards of values in the list drops no value.
        drop(list.front());
        list.for_each(|value| assert!(value.is_alive()));
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        drop(list);
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
    }
}

#[test]
fn the_last_guard_of_a_removed_value_returns_it() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, [Box::new(1), Box::new(2)]);
        let front = list.front().unwrap().into_inner().unwrap_err();
        assert!(list.remove(&front));
        let other = front.clone();
        let front = front.into_inner().unwrap_err();
        drop(other);
        assert_eq!(*front.into_inner().unwrap(), 2);
        assert_eq!(list.len(), 1);
    }
}

/// A visitor whose node is removed continues at its former place, whatever was removed and inserted
/// meanwhile.
#[test]
fn a_visitor_of_a_removed_value_continues_at_its_place() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, 0..6);
        let mut iter = list.iter();
        let seen: Vec<i32> = iter.by_ref().take(2).map(|value| *value).collect();
        assert_eq!(seen, [5, 4]);
        // Removes the visitor's node, the one before and the one behind; then inserts new ones at
        // the front, in their memory.
        for key in [4, 5, 3] {
            list.remove(&list.find(|value| *value == key).unwrap());
        }
        (10..20).for_each(|value| list.push_front(value).unwrap());
        let rest: Vec<i32> = iter.by_ref().map(|value| *value).collect();
        assert_eq!(rest, [2, 1, 0]);
        assert!(iter.next().is_none());
        assert_eq!(list.len(), 13);
    }
}

#[test]
fn a_stopped_visitor_retains_one_value() {
    {
        let dropped = AtomicUsize::new(0);
        let list = RefList::try_with_limit(8).unwrap();
        assert_eq!(list.limit(), 8);
        list.push_front(Counted::new(&dropped)).unwrap();
        let guard = list.pop_front().unwrap();
        for _ in 0..1000 {
            list.push_front(Counted::new(&dropped)).unwrap();
            list.push_front(Counted::new(&dropped)).unwrap();
            drop((list.pop_front(), list.pop_front()));
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 2000);
        assert!(guard.is_alive() && guard.next().is_none());
        let held: Vec<_> = (0..7)
            .map(|_| list.push_front(Counted::new(&dropped)))
            .collect();
        assert!(held.iter().all(Result::is_ok));
        let refused = list.push_front(Counted::new(&dropped)).unwrap_err();
        assert_eq!(refused.reason, type_stable::Error::LimitReached);
        assert!(refused.value.is_alive());
    }
}

/// A destructor may use the list that its value was in, and may panic.
#[test]
fn destructors_may_use_the_list_and_panic() {
    struct Again(Arc<RefList<Again>>, u32);
    impl Drop for Again {
        fn drop(&mut self) {
            if self.1 > 0 {
                let again = Again(Arc::clone(&self.0), self.1 - 1);
                let _ = self.0.push_front(again);
            } else {
                panic!("in a destructor");
            }
        }
    }
    let list = Arc::new(RefList::try_with_limit(2).unwrap());
    list.push_front(Again(Arc::clone(&list), 3)).unwrap();
    for _ in 0..3 {
        drop(list.pop_front());
    }
    let ended = std::panic::AssertUnwindSafe(|| drop(list.pop_front()));
    assert!(std::panic::catch_unwind(ended).is_err());
    assert!(list.is_empty());
    // The node is free nevertheless.
    let values = [1, 1].map(|left| list.push_front(Again(Arc::clone(&list), left)));
    assert!(values.iter().all(Result::is_ok));
    list.for_each(|value| assert_eq!(value.1, 1));
    std::mem::forget(list);
}

/// The next value's guard is released even if the last value's destructor panics.
#[test]
fn a_panicking_destructor_leaks_no_guard() {
    struct Fragile(bool);
    impl Drop for Fragile {
        fn drop(&mut self) {
            assert!(!self.0, "in a destructor");
        }
    }
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, [Fragile(false), Fragile(true)]);
        let removed = list.pop_front().unwrap();
        let moved = std::panic::AssertUnwindSafe(|| drop(removed.into_next()));
        assert!(std::panic::catch_unwind(moved).is_err());
        let only_guard = list.pop_front().unwrap();
        assert!(only_guard.into_inner().is_ok());
    }
}

#[test]
fn every_value_is_dropped_once() {
    for mechanism in MECHANISMS {
        let (made, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let list = list_of(mechanism, []);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (list, made, dropped) = (&list, &made, &dropped);
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for step in 0..rounds(400 * SCALE) {
                        match (number + step) % 4 {
                            0 | 1 => {
                                made.fetch_add(1, Ordering::SeqCst);
                                list.push_front(Counted::new(dropped)).unwrap();
                            }
                            2 => kept.extend(list.pop_front()),
                            _ => {
                                list.iter()
                                    .take(5)
                                    .for_each(|value| assert!(value.is_alive()));
                                let nth = list.iter().nth(step % 7);
                                if let Some(value) = nth {
                                    list.remove(&value);
                                    assert!(value.is_alive());
                                    if let Ok(value) = value.into_inner() {
                                        assert!(value.is_alive());
                                    }
                                }
                            }
                        }
                        if kept.len() > 10 {
                            kept.drain(..).for_each(|value| assert!(value.is_alive()));
                        }
                    }
                });
            }
        });
        let left = list.len();
        assert_eq!(
            dropped.load(Ordering::SeqCst) + left,
            made.load(Ordering::SeqCst)
        );
        drop(list);
        assert_eq!(dropped.into_inner(), made.into_inner());
    }
}

/// Visitors meet each value that stays exactly once, in order, while others are inserted and
/// removed around it.
#[test]
fn visitors_miss_nothing_that_stays() {
    for mechanism in MECHANISMS {
        // Even values stay.
        let list = list_of(mechanism, 0..40);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let mut seen: Vec<i32> = Vec::new();
                    list.for_each(|value| seen.push(*value));
                    seen.retain(|value| *value < 40 && value % 2 == 0);
                    assert_eq!(seen, Vec::from_iter((0..20).rev().map(|half| half * 2)));
                }
            });
            for step in 0..rounds(300 * SCALE) as i32 {
                let odd = list.find(|value| value % 2 == 1).unwrap();
                assert!(list.remove(&odd));
                list.push_front(41 + 2 * step).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn a_value_goes_behind_the_visited_one() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, ["a", "b"].map(String::from));
        let first = list.front().unwrap();
        for value in ["c", "d"] {
            first.insert_behind(value.to_string()).unwrap();
        }
        assert_eq!(values(&list), ["b", "d", "c", "a"]);
        // Behind the last one, and behind one that was inserted there.
        let last = list.find(|value| value == "a").unwrap();
        last.insert_behind("e".to_string()).unwrap();
        assert_eq!(*last.next().unwrap(), "e");
        let mut iter = list.iter();
        assert_eq!(*iter.next().unwrap(), "b");
        first.insert_behind("f".to_string()).unwrap();
        assert_eq!(
            *iter.next().unwrap(),
            "f",
            "a visitor meets what comes behind it"
        );

        assert!(list.remove(&first));
        let refused = first.insert_behind("g".to_string()).unwrap_err();
        assert_eq!(
            (refused.value.as_str(), refused.reason),
            ("g", Refused::Absent)
        );
        assert_eq!(*first.next().unwrap(), "f");
        assert_eq!(values(&list), ["f", "d", "c", "a", "e"]);
        drop(first);
        assert_eq!(values(&list), ["f", "d", "c", "a", "e"]);
    }
}

/// The node of the refused value is free again, and the value is dropped by its owner alone.
#[test]
fn a_refused_insertion_returns_the_value() {
    let dropped = AtomicUsize::new(0);
    let list = RefList::try_with_limit(2).unwrap();
    list.push_front(Counted::new(&dropped)).unwrap();
    let removed = list.pop_front().unwrap();
    for round in 0..10 {
        let refused = removed.insert_behind(Counted::new(&dropped)).unwrap_err();
        assert_eq!(refused.reason, Refused::Absent);
        assert!(refused.value.is_alive());
        drop(refused);
        assert_eq!(dropped.load(Ordering::SeqCst), round + 1);
    }
    list.push_front(Counted::new(&dropped)).unwrap();
    let front = list.front().unwrap();
    let refused = front.insert_behind(Counted::new(&dropped)).unwrap_err();
    let full = type_stable::Error::LimitReached;
    assert_eq!(refused.reason, Refused::Memory(full));
}

/// A thread has exited with each kind of thing that it can hold. Audits recover them, and nothing
/// that live threads hold.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_recovers_what_exited_threads_held() {
    let time = std::time::Duration::from_millis(2);
    for mechanism in MECHANISMS {
        let dropped = AtomicUsize::new(0);
        let drops = || dropped.load(Ordering::SeqCst);
        let list = list_of(mechanism, (0..4).map(|_| Counted::new(&dropped)));
        let audit = || {
            std::thread::sleep(2 * time);
            // SAFETY: the only thread is here, inside no operation, and renews what it holds.
            unsafe { list.audit(time) }.unclaimed
        };
        assert_eq!([audit(), audit()], [0, 0], "{mechanism:?}");
        // A removed value, with two guards; one in the list; a node in no list.
        let first = list.pop_front().unwrap();
        std::mem::forget((first.clone(), first));
        std::mem::forget(list.front());
        std::mem::forget(list.chain.allocate());
        // A live thread's.
        let mut kept = list.iter().last().unwrap();
        assert_eq!((audit(), drops()), (0, 0), "{mechanism:?}");
        kept = kept.clone();
        assert_eq!((audit(), drops()), (3, 1), "{mechanism:?}");
        kept = kept.clone();
        assert_eq!(audit(), 0, "{mechanism:?}");
        assert_eq!(list.len(), 3);
        // The guard of the first one no longer counts.
        drop(list.pop_front());
        assert_eq!(drops(), 2);
        assert!(kept.is_alive());

        // A guard that is acquired between two audits keeps the value.
        std::mem::forget(list.front());
        kept = kept.clone();
        assert_eq!(audit(), 0);
        let guard = list.front().unwrap();
        kept = kept.clone();
        assert_eq!(audit(), 0, "{mechanism:?}: a new guard");
        assert!(guard.is_alive());
        kept = kept.clone();
        drop(guard);
        assert_eq!(audit(), 1, "{mechanism:?}: the old ones");
        drop(kept);
        drop(list);
        assert_eq!(drops(), 4, "{mechanism:?}");
    }
}

/// While an audit runs, others insert, visit and remove: it recovers nothing.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn an_audit_beside_others_recovers_nothing() {
    for mechanism in MECHANISMS {
        let (made, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let list = list_of(mechanism, []);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        made.fetch_add(1, Ordering::SeqCst);
                        list.push_front(Counted::new(&dropped)).unwrap();
                        if let Some(front) = list.front() {
                            made.fetch_add(1, Ordering::SeqCst);
                            _ = front.insert_behind(Counted::new(&dropped));
                            assert!(front.is_alive());
                        }
                        list.for_each(|value| assert!(value.is_alive()));
                        drop((list.pop_front(), list.pop_front()));
                    }
                });
            }
            for _ in 0..rounds(100 * SCALE) {
                // SAFETY: no operation and no guard lasts for an hour.
                let audit = unsafe { list.audit(std::time::Duration::from_secs(3600)) };
                assert_eq!(audit.unclaimed, 0);
            }
            done.store(true, Ordering::Relaxed);
        });
        drop(list);
        assert_eq!(made.into_inner(), dropped.into_inner());
    }
}
