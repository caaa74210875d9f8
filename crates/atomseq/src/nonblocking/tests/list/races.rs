//! Tests by many threads at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

const THREADS: u64 = 4;

fn by_threads(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
}

/// Each removal, replacement and checkout of an entry succeeds in one thread only.
#[test]
fn nothing_is_lost_or_duplicated() {
    for mechanism in MECHANISMS {
        let list = List::<u64, u64>::forced(mechanism);
        let (put, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        let add = |sum: &AtomicU64, value| sum.fetch_add(value, Ordering::Relaxed);
        by_threads(|number| {
            let seed = &mut (number + 1);
            for step in 0..rounds(1_000 * SCALE) {
                let (key, value) = (random(seed) as u64 % 12, number << 32 | step as u64);
                match random(seed) % 5 {
                    0 if list.try_insert(key, value).is_ok() => _ = add(&put, value),
                    1 => {
                        if let Ok(Some(value)) = list.remove(&key) {
                            add(&taken, value);
                        }
                    }
                    2 => {
                        if let Ok(before) = list.insert(key, value) {
                            add(&put, value);
                            add(&taken, before.unwrap_or(0));
                        }
                    }
                    3 => {
                        if let Ok(Some(removed)) = list.check_out(&key) {
                            let before = removed.value();
                            removed.check_in(value).unwrap();
                            add(&put, value);
                            add(&taken, before);
                        }
                    }
                    _ => {
                        if let Some((_, value)) = list.pop_first() {
                            add(&taken, value);
                        }
                    }
                }
            }
        });
        let left = list.fold(0, |sum, _, value| sum + value);
        assert_eq!(put.into_inner(), taken.into_inner() + left);
    }
}

#[test]
fn every_update_counts() {
    for mechanism in MECHANISMS {
        let list = List::<u64, u64>::forced(mechanism);
        let times = rounds(500 * SCALE) as u64;
        by_threads(|number| {
            for step in 0..times {
                let key = (number + step) % 3;
                list.insert_with(key, |count| count.unwrap_or(0) + 1)
                    .unwrap();
            }
        });
        assert_eq!(list.fold(0, |sum, _, count| sum + count), THREADS * times);
        assert!(list.version().number() > THREADS * times);
    }
}

/// Every value that is read was stored by a thread, and a snapshot is of one time.
#[test]
fn nothing_is_torn() {
    for mechanism in MECHANISMS {
        let list = List::<u64, [u64; 6]>::forced(mechanism);
        let all = |value| [value; 6];
        let is_whole = |value: [u64; 6]| assert_eq!(value, all(value[0]));
        for key in [0, 5, 9, 20] {
            list.try_insert(key, all(0)).unwrap();
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let entries = list.snapshot();
                    entries.iter().for_each(|(_, value)| is_whole(*value));
                    // Key 5 moves to 6 and back. A snapshot contains one of them or both, and all
                    // other keys.
                    let keys: Vec<u64> = entries.iter().map(|(key, _)| *key).collect();
                    assert!(keys.contains(&5) || keys.contains(&6), "{keys:?}");
                    let mut last = None;
                    for (key, value) in &list {
                        is_whole(value);
                        assert!(last.replace(key).is_none_or(|last| last < key));
                    }
                    assert_eq!(last, Some(20));
                    list.get(&0).unwrap().map(is_whole).unwrap();
                }
            });
            for number in 0..2 {
                let (list, done) = (&list, &done);
                scope.spawn(move || {
                    for step in 0..rounds(800 * SCALE) as u64 {
                        let value = all(number << 32 | step);
                        if number == 0 {
                            let (from, to) = (5 + step % 2, 6 - step % 2);
                            list.try_insert(to, value).unwrap();
                            list.remove(&from).unwrap().unwrap();
                        } else {
                            list.insert(0, value).unwrap();
                            list.try_insert(3, value).unwrap();
                            if let Ok(Some(removed)) = list.check_out(&9) {
                                std::mem::forget(removed);
                                list.forget_checkout(&9);
                                list.try_insert(9, value).unwrap();
                            }
                            list.remove(&3).unwrap().unwrap();
                        }
                    }
                    done.store(true, Ordering::Relaxed);
                });
            }
        });
    }
}

/// Entries are changed in place while other threads search.
#[test]
fn changes_in_place_are_not_seen_half_done() {
    for mechanism in MECHANISMS {
        let list = List::<u64, [u64; 6]>::forced(mechanism);
        list.try_insert(1, [0; 6]).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Ok(found) = list.get(&1) {
                        let value = found.expect("never deleted");
                        assert_eq!(value, [value[0]; 6]);
                    }
                }
            });
            for step in 1..=rounds(2_000 * SCALE) as u64 {
                let removed = list.check_out(&1).unwrap().unwrap();
                assert_eq!(removed.value(), [step - 1; 6]);
                removed.check_in([step; 6]).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
