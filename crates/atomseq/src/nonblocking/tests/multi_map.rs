//! Tests of `MultiMap` under both mechanisms: against a sequential model, with interruptions, and
//! by many threads.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::type_stable::Error;

fn random(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn maps_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<MultiMap<u64, [u8; 5]>>();
}

/// Removing half of a bucket visits its entries once, and again after an interruption of a removal.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_bucket_is_not_visited_again_for_each_entry_that_is_removed() {
    for mechanism in MECHANISMS {
        let map = MultiMap::<u64, u64>::forced(1, mechanism);
        (0..4_000).for_each(|value| _ = map.insert(0, value).unwrap());
        let mut visits = 0;
        map.retain(|_, value| {
            visits += 1;
            value % 2 == 0
        });
        assert_eq!(map.len(), 2_000);
        assert!(visits < 1_000_000, "{visits} visits");
        // `keep` removes other entries of the bucket, before and behind the link.
        map.retain(|_, value| {
            map.remove(&0, &(value + 2));
            map.remove(&0, &(value / 2));
            value % 10 < 4
        });
        assert!(map.snapshot().iter().all(|(_, value)| value % 10 < 4));
    }
}

/// Few keys and values, so that most operations find what they look for, in one bucket and many.
#[test]
fn random_operations_agree_with_a_set_of_pairs() {
    for (mechanism, buckets) in MECHANISMS.into_iter().flat_map(|by| [(by, 1), (by, 7)]) {
        let map = MultiMap::<u64, u64>::forced(buckets, mechanism);
        assert_eq!((map.buckets(), map.is_empty()), (buckets, true));
        // Newest first, as in a bucket.
        let mut model: Vec<(u64, u64)> = Vec::new();
        let mut seed = 1;
        let rounds = if cfg!(miri) { 200 } else { 4_000 * SCALE };
        for _ in 0..rounds {
            let pair @ (key, value) = (random(&mut seed) % 5, random(&mut seed) % 6);
            let is_there = model.contains(&pair);
            match random(&mut seed) % 16 {
                0..7 => {
                    assert_eq!(map.insert(key, value), Ok(!is_there));
                    if !is_there {
                        model.insert(0, pair);
                    }
                }
                7..11 => {
                    assert_eq!(map.remove(&key, &value), is_there);
                    model.retain(|other| *other != pair);
                }
                11 | 12 => {
                    let newest = model.iter().position(|(other, _)| *other == key);
                    let popped = newest.map(|place| model.remove(place).1);
                    assert_eq!(map.pop(&key), popped);
                }
                13 if value == 0 => {
                    map.retain(|key, value| (key + value) % 3 != 0);
                    model.retain(|(key, value)| (key + value) % 3 != 0);
                }
                _ => assert_eq!(map.contains(&key, &value), is_there),
            }
            let of_key = map.fold(&key, Vec::new(), |mut values, value| {
                values.push(value);
                values
            });
            let expected = model.iter().filter(|(other, _)| *other == key);
            assert_eq!(
                of_key,
                expected.map(|(_, value)| *value).collect::<Vec<_>>()
            );
        }
        let all = map.snapshot().into_iter().collect::<BTreeSet<_>>();
        assert_eq!(all, model.iter().copied().collect());
        assert_eq!(map.len(), model.len());
    }
}

#[test]
fn a_limit_is_kept_and_given_back() {
    let made = |buckets, limit| {
        let hasher = std::hash::RandomState::new();
        MultiMap::<u64, u64>::try_with_limit_and_hasher(buckets, limit, hasher)
    };
    assert_eq!(made(0, 1).err(), Some(Error::Zero));
    assert_eq!(made(1, 0).err(), Some(Error::Zero));
    let map = made(3, 8).unwrap();
    assert_eq!(map.limit(), 8);
    for round in 0..100 {
        for value in 0..8 {
            assert_eq!(map.insert(round, value), Ok(true));
        }
        assert_eq!(map.insert(round, 8), Err(Error::LimitReached));
        // It is there, so it takes no memory.
        assert_eq!(map.insert(round, 7), Ok(false));
        map.retain(|_, _| false);
    }
    assert!(map.is_empty());
}

/// Between the look and the change of an operation, another one changes the bucket.
#[test]
fn an_interrupted_operation_retries() {
    fn once(work: &dyn Fn()) -> impl FnMut(Version) -> Version {
        let mut is_first = true;
        move |version| {
            if std::mem::take(&mut is_first) {
                work();
            }
            version
        }
    }
    for mechanism in MECHANISMS {
        let map = MultiMap::<u64, u64>::forced(1, mechanism);
        // Another thread inserts the same pair first.
        let inserts = || assert_eq!(map.insert(1, 1), Ok(true));
        assert_eq!(map.insert_between(1, 1, once(&inserts)), Ok(false));
        assert_eq!(map.len(), 1);
        // Another thread removes it, and its node comes back with another pair.
        let replaces = || {
            assert!(map.remove(&1, &1));
            assert_eq!(map.insert(2, 2), Ok(true));
        };
        assert!(!map.remove_between(&1, &1, once(&replaces)));
        assert_eq!(map.snapshot(), [(2, 2)]);
        // The same, by an insertion that finds neither: its own change comes at the second attempt.
        let inserts = || assert_eq!(map.insert(4, 4), Ok(true));
        assert_eq!(map.insert_between(3, 3, once(&inserts)), Ok(true));
        assert_eq!(map.snapshot(), [(3, 3), (4, 4), (2, 2)]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn each_pair_is_inserted_and_removed_by_one_thread() {
    const THREADS: u64 = 4;
    for mechanism in MECHANISMS {
        let map = MultiMap::<u64, u64>::forced(2, mechanism);
        let totals = thread::scope(|scope| {
            let threads = (0..THREADS).map(|thread| {
                let map = &map;
                scope.spawn(move || {
                    let (mut seed, mut inserted, mut removed) = (thread + 1, 0, 0);
                    for _ in 0..5_000 * SCALE {
                        let (key, value) = (random(&mut seed) % 3, random(&mut seed) % 3);
                        match random(&mut seed) % 4 {
                            0 => removed += i64::from(map.remove(&key, &value)),
                            1 => removed += i64::from(map.pop(&key).is_some()),
                            2 => inserted += i64::from(map.insert(key, value).unwrap()),
                            _ => {
                                let add = |seen: [u32; 3], value: u64| {
                                    let mut seen = seen;
                                    seen[value as usize] += 1;
                                    seen
                                };
                                let seen = map.fold(&key, [0; 3], add);
                                assert!(seen.iter().all(|count| *count < 2), "{seen:?}");
                            }
                        }
                    }
                    inserted - removed
                })
            });
            let threads = threads.collect::<Vec<_>>();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.sum::<i64>()
        });
        assert_eq!(map.len() as i64, totals, "{mechanism:?}");
    }
}

/// The audit walks through the bucket before an insertion links its node there, and takes long
/// after that. The insertion itself takes less than the time.
#[test]
#[cfg_attr(miri, ignore = "needs the time")]
fn an_audit_frees_no_node_that_is_linked_behind_it() {
    const TIME: Duration = Duration::from_millis(50);
    for mechanism in MECHANISMS {
        let mut in_time = false;
        while !in_time {
            let map = MultiMap::<u64, u64>::forced(1, mechanism);
            let (allocated, goes_on) = (Barrier::new(2), Barrier::new(2));
            let start = Instant::now();
            thread::scope(|scope| {
                let inserting = scope.spawn(|| {
                    let mut attempts = 0;
                    map.insert_between(1, 10, |version| {
                        attempts += 1;
                        match attempts {
                            // It fails after it has allocated the node.
                            1 => assert_eq!(map.insert(2, 20), Ok(true)),
                            2 => {
                                allocated.wait();
                                goes_on.wait();
                            }
                            _ => {}
                        }
                        version
                    })
                });
                allocated.wait();
                // SAFETY: the other thread owns its node for less than the time before the second
                // audit starts, unless this thread is delayed. Then the node is claimed below, so
                // neither audit finds it.
                unsafe { map.audit(TIME) };
                let gap = || {
                    in_time = start.elapsed() < TIME;
                    goes_on.wait();
                    assert_eq!(inserting.join().unwrap(), Ok(true));
                    match in_time {
                        true => thread::sleep(2 * TIME),
                        false => map.claim_all(),
                    }
                };
                // SAFETY: the other thread ends in the gap. Its node is then in the map, or
                // claimed.
                let audit = unsafe { map.audit_from(TIME, gap) };
                assert_eq!((audit.allocated, audit.unclaimed), (2, 0), "{mechanism:?}");
            });
            assert_eq!(map.snapshot(), [(1, 10), (2, 20)]);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "needs the time")]
fn an_audit_frees_no_node_that_is_in_a_bucket() {
    for mechanism in MECHANISMS {
        let map = MultiMap::<u64, u64>::forced(4, mechanism);
        for value in 0..100 {
            map.insert(value % 10, value).unwrap();
        }
        for round in 0..4 {
            // SAFETY: the only thread is here.
            let audit = unsafe { map.audit(Duration::from_millis(1)) };
            assert_eq!((audit.allocated, audit.unclaimed), (100 - round, 0));
            thread::sleep(Duration::from_millis(3));
            // A node that was just freed, and allocated again, counts as claimed.
            assert!(map.pop(&(round as u64)).is_some());
        }
        assert_eq!(map.len(), 96);
    }
}
