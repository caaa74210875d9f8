//! The hash map of counted values: each value ends once, with its last guard; a reader that others
//! overtake gets no other key's value; panics lose nothing. The map of addresses has tests of its
//! own.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::panics::{Key, key};
use super::*;
use crate::nonblocking::hash_map::spread;
use crate::tests::panics::{Value, each_call, panics, there};

/// Hashes a number to itself: the first 8 keys lie in different buckets.
#[derive(Clone, Copy, Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[test]
fn values_end_with_their_last_guard() {
    let map = RefHashMap::new();
    assert!(map.insert(1, Value::new(10)).unwrap().is_none());
    let first = map.get(&1).unwrap();
    let second = first.clone();
    let replaced = map.insert(1, Value::new(20)).unwrap().unwrap();
    assert_eq!((replaced.0, there()), (10, vec![10, 20]));
    drop(replaced);
    let first = first.into_inner().unwrap_err();
    drop(second);
    drop(first.into_inner().unwrap());
    assert_eq!(there(), [20]);

    let refused = map.try_insert(1, Value::new(30)).unwrap_err();
    assert_eq!((refused.value.0, refused.reason), (30, Refused::Present));
    drop(refused);
    map.try_insert(2, Value::new(40)).unwrap();
    let removed = map.remove(&1).unwrap();
    assert!(map.remove(&1).is_none() && map.get(&1).is_none());
    assert_eq!((map.len(), map.nodes(), there()), (1, 2, vec![20, 40]));
    assert_eq!(removed.into_inner().unwrap().0, 20);
    assert_eq!((map.nodes(), there()), (1, vec![40]));
    assert!(map.get(&2).unwrap().into_inner().is_err());
    drop(map);
    assert_eq!(there(), []);
}

/// Leaked guards do not leak the values.
#[test]
fn a_map_drops_all_that_is_there() {
    let map = RefHashMap::new();
    for number in 0..100 {
        map.insert(number, Value::new(number)).unwrap();
    }
    std::mem::forget(map.get(&1));
    std::mem::forget(map.remove(&2));
    drop(map.remove(&3));
    assert_eq!(there().len(), 99);
    drop(map);
    assert_eq!(there(), []);
}

/// Between the steps of a lookup of key 1, its value ends, and its node is used again for key 2.
fn looks_up_between<const CHECKED: bool>(moves_after_check: bool) -> Option<u64> {
    let map = RefHashMap::<u64, u64, _>::with_hasher(BuildHasherDefault::<Itself>::default());
    map.insert(1, 10).unwrap();
    let mut is_first = true;
    let found = map.get_between::<CHECKED>(&1, |is_checked| {
        if is_checked == moves_after_check && std::mem::take(&mut is_first) {
            drop(map.remove(&1));
            map.insert(2, 20).unwrap();
            assert_eq!(map.nodes(), 1);
        }
    });
    found.map(|value| *value)
}

#[test]
fn a_reader_that_was_overtaken_gets_no_other_value() {
    assert_eq!(looks_up_between::<true>(false), None);
    assert_eq!(looks_up_between::<true>(true), None);
    assert_eq!(looks_up_between::<false>(true), None);
    // The control: without a check of the bucket, it is the value of another key.
    assert_eq!(looks_up_between::<false>(false), Some(20));
}

/// A value that another thread takes out after the check was in the map during the call.
#[test]
fn a_reader_may_acquire_a_value_that_was_removed_meanwhile() {
    let map = RefHashMap::<u64, u64>::new();
    map.insert(1, 10).unwrap();
    let mut removed = None;
    let found = map.get_between::<true>(&1, |is_checked| {
        if is_checked {
            removed = map.remove(&1);
        }
    });
    assert_eq!(found.as_deref(), Some(&10));
    assert_eq!(removed.as_deref(), Some(&10));
    assert_eq!(map.nodes(), 1);
    drop((found, removed));
    assert_eq!((map.nodes(), map.len()), (0, 0));
}

#[test]
fn there_are_at_most_so_many_guards() {
    let map = RefHashMap::<u64, Value>::new();
    map.insert(1, Value::new(1)).unwrap();
    // The map has one.
    (1..(1 << 20) - 1).for_each(|_| std::mem::forget(map.get(&1)));
    for _ in 0..2 {
        let attempt = std::panic::AssertUnwindSafe(|| map.get(&1).is_some());
        assert!(std::panic::catch_unwind(attempt).is_err());
    }
    std::mem::forget(map.remove(&1));
    drop(map);
    assert_eq!(there(), []);
}

/// Its keys and its growth are those of a `HashMap`.
#[test]
fn it_matches_a_map_of_strings() {
    let map = RefHashMap::new();
    let mut model = BTreeMap::new();
    let mut seed = 5_u64;
    for step in 0..10_000 * SCALE as u64 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let key = seed % 2_000;
        let value = step.to_string();
        match seed >> 32 & 7 {
            0..3 => {
                let old = map.insert(key, value.clone()).unwrap();
                assert_eq!(old.as_deref(), model.insert(key, value).as_ref());
            }
            3 => {
                let inserted = map.try_insert(key, value.clone());
                assert_eq!(inserted.is_err(), model.contains_key(&key));
                model.entry(key).or_insert(value);
            }
            4 | 5 => assert_eq!(map.remove(&key).as_deref(), model.remove(&key).as_ref()),
            _ => {
                assert_eq!(map.get(&key).as_deref(), model.get(&key));
                assert_eq!(map.contains_key(&key), model.contains_key(&key));
            }
        }
        assert_eq!(map.len(), model.len());
    }
    let entries = map.iter().map(|(key, value)| (key, String::clone(&value)));
    assert_eq!(BTreeMap::from_iter(entries), model);
    assert_eq!(map.nodes(), model.len());
    assert!(map.buckets() > 300, "{} buckets", map.buckets());
}

#[test]
fn an_iterator_skips_what_was_removed_and_shows_what_replaced_it() {
    let map = RefHashMap::<u64, u64, _>::with_hasher(BuildHasherDefault::<Itself>::default());
    // All in one bucket, which the iterator copies at once.
    for key in [0, 8, 16] {
        map.insert(key, key).unwrap();
    }
    let mut entries = map.iter();
    let (first, _) = entries.next().unwrap();
    let [removed, replaced]: [u64; 2] =
        Vec::from_iter([0, 8, 16].into_iter().filter(|key| *key != first))
            .try_into()
            .unwrap();
    drop(map.remove(&removed));
    map.insert(replaced, 100).unwrap();
    let rest: Vec<_> = entries.map(|(key, value)| (key, *value)).collect();
    assert_eq!(rest, [(replaced, 100)]);
}

#[test]
fn its_traits_are_those_of_a_map() {
    let map = RefHashMap::<u64, String>::default();
    assert!(map.is_empty());
    map.insert(1, "a".into()).unwrap();
    assert_eq!(format!("{map:?}"), "{1: \"a\"}");
    for (key, value) in &map {
        assert_eq!((key, value.as_str()), (1, "a"));
    }
}

/// Threads replace, remove and read the same few values, which check that they are alive.
#[test]
fn guards_keep_values_alive() {
    struct Alive<'a>(u64, &'a AtomicUsize);

    impl Drop for Alive<'_> {
        fn drop(&mut self) {
            assert_ne!(std::mem::replace(&mut self.0, 0), 0, "dropped twice");
            self.1.fetch_sub(1, Ordering::Relaxed);
        }
    }

    let alive = AtomicUsize::new(0);
    let map = RefHashMap::new();
    let new = |number| {
        alive.fetch_add(1, Ordering::Relaxed);
        Alive(number, &alive)
    };
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (map, new) = (&map, &new);
            scope.spawn(move || {
                let mut held = Vec::new();
                for round in 0..4_000 * SCALE as u64 {
                    let key = (round * 7 + thread) % 5;
                    match round % 4 {
                        0 => _ = map.insert(key, new(key + 1)).unwrap(),
                        1 => _ = map.remove(&key),
                        _ => held.extend(map.get(&key)),
                    }
                    if held.len() > 3 {
                        let value = held.remove(round as usize % 4);
                        assert!((1..=5).contains(&value.0), "ended under a guard");
                    }
                }
            });
        }
    });
    assert_eq!(map.nodes(), alive.load(Ordering::Relaxed));
    assert_eq!(map.nodes(), map.len());
    drop(map);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

/// The thread that takes an address out of the map also takes the value out of its node. No reader
/// acquires a guard of it after that, whatever order the stores become visible in. (Miri shows a
/// reader old values.)
#[test]
fn a_value_that_was_taken_out_of_its_node_has_no_reader() {
    for _ in 0..if cfg!(miri) { 10 } else { 2_000 } {
        let map =
            RefHashMap::<u64, String, _>::with_hasher(BuildHasherDefault::<Itself>::default());
        map.insert(1, "one".into()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if let Ok(value) = map.remove(&1).unwrap().into_inner() {
                    assert_eq!(value, "one");
                }
            });
            (0..20).for_each(|_| assert!(map.get(&1).is_none_or(|value| *value == "one")));
        });
    }
}

thread_local! {
    /// How many hashes are true before the rest are 0.
    static TRUE_HASHES: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

/// Hashes a number to itself at first.
#[derive(Clone, Copy, Default)]
struct Fickle(u64);

impl Hasher for Fickle {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        let left = TRUE_HASHES.get();
        TRUE_HASHES.set(left.saturating_sub(1));
        self.0 = if left > 0 { key } else { 0 };
    }
}

/// A key's hash is another one than before. An entry may not be found then, but in no case is it
/// found where it was before a split.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_hash_that_changes_ends_no_value_twice() {
    // Those that move from bucket 0 to bucket 8 when the map is split first.
    let moves = |key: &u64| spread(*key) % 16 == 8;
    let keys = Vec::from_iter((1..).filter(moves).take(13));
    // Where in the insertion that splits the bucket the hash changes.
    for true_hashes in 1..40 {
        let map = RefHashMap::with_hasher(BuildHasherDefault::<Fickle>::default());
        TRUE_HASHES.set(usize::MAX);
        for (index, key) in keys.iter().enumerate() {
            if index == 12 {
                assert_eq!(map.buckets(), 8);
                TRUE_HASHES.set(true_hashes);
            }
            map.insert(*key, Value::new(*key)).unwrap();
        }
        // Each hash finds what it finds, and none of it ends twice.
        for left in [usize::MAX, 0, usize::MAX] {
            for key in &keys {
                TRUE_HASHES.set(left);
                drop(map.remove(key));
                TRUE_HASHES.set(0);
                assert!(map.get(key).is_none_or(|value| there().contains(&value.0)));
            }
        }
        TRUE_HASHES.set(usize::MAX);
        drop(map);
        assert_eq!(there(), [], "{true_hashes}");
    }
}

type Panicking = RefHashMap<Key, Value, BuildHasherDefault<Itself>>;

/// Whatever panics, each value is in the map or was dropped, and no node is lost.
#[test]
fn panics_lose_nothing() {
    type Operation = (&'static str, fn(&Panicking));
    let operations: [Operation; 6] = [
        ("insert", |map| {
            drop(map.insert(key(9), Value::new(5)).unwrap())
        }),
        ("insert in place of another", |map| {
            drop(map.insert(key(3), Value::new(5)).unwrap());
        }),
        ("try_insert", |map| {
            drop(map.try_insert(key(3), Value::new(5)))
        }),
        ("get", |map| drop(map.get(&key(3)))),
        ("remove", |map| drop(map.remove(&key(3)))),
        ("iter", |map| map.iter().for_each(drop)),
    ];
    for (name, operation) in operations {
        let planned = each_call(name, |after| {
            let map = Panicking::default();
            // So many that an insertion splits a bucket.
            for number in 1..=12 {
                map.insert(key(number), Value::new(number + 100)).unwrap();
            }
            let panicked = panics(after, || operation(&map));
            let mut numbers: Vec<_> = map.iter().map(|(_, value)| value.0).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, there(), "{name}, {after}");
            assert_eq!(map.nodes(), numbers.len(), "{name}, {after}");
            drop(map);
            assert_eq!(there(), [], "{name}, {after}: a value was lost");
            panicked
        });
        println!("{name}: {planned} panics");
        assert!(planned > 0, "{name} calls nothing");
    }
    let planned = each_call("drop", |after| {
        let map = Panicking::default();
        for number in 1..=12 {
            map.insert(key(number), Value::new(number)).unwrap();
        }
        let panicked = panics(after, || drop(map));
        assert_eq!(there(), [], "{after}: a value was lost");
        panicked
    });
    assert_eq!(planned, 12);
}

/// The time of the audits of these tests.
const TIME: Duration = Duration::from_millis(2);

/// Audits a map after longer than the time. Returns how many values were recovered.
fn audit<V: Send + Sync, S: BuildHasher>(map: &RefHashMap<u64, V, S>) -> usize {
    std::thread::sleep(2 * TIME);
    // SAFETY: the only thread is here, inside no operation that takes so long, and renews what it
    // holds.
    unsafe { map.audit(TIME) }.unclaimed
}

/// A thread has exited with each kind of thing that it can hold. Audits recover them, and nothing
/// that live threads hold.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_recovers_what_exited_threads_held() {
    let map = RefHashMap::new();
    for number in 1..=5 {
        map.insert(number, Value::new(number)).unwrap();
    }
    assert_eq!([audit(&map), audit(&map)], [0, 0]);
    // A removed value with two guards, and a replaced one; one in the map; a node without a guard.
    let first = map.remove(&1).unwrap();
    std::mem::forget((first.clone(), first));
    std::mem::forget(map.insert(2, Value::new(20)));
    std::mem::forget(map.get(&3));
    map.leak_node();
    // A live thread's: of a value in the map, and of one that is not.
    let mut kept = [map.get(&4), map.remove(&5)].map(Option::unwrap);
    assert_eq!((audit(&map), there().len()), (0, 6));
    kept = kept.each_ref().map(Clone::clone);
    assert_eq!((audit(&map), there()), (4, vec![3, 4, 5, 20]));
    kept = kept.each_ref().map(Clone::clone);
    assert_eq!((audit(&map), map.nodes()), (0, 4));
    // The guard of the third one no longer counts.
    drop(map.remove(&3));
    assert_eq!(there(), [4, 5, 20]);
    // A value whose guard in the map was noted, and which was removed then.
    std::mem::forget(map.get(&2));
    kept = kept.each_ref().map(Clone::clone);
    assert_eq!(audit(&map), 0);
    std::mem::forget(map.remove(&2));
    for recovered in [0, 1, 1] {
        kept = kept.each_ref().map(Clone::clone);
        assert_eq!(audit(&map), recovered);
    }
    assert_eq!(there(), [4, 5]);
    assert_eq!(kept.each_ref().map(|value| value.0), [4, 5]);
    drop(kept);
    assert_eq!((there(), map.nodes()), (vec![4], 1));
    drop(map);
    assert_eq!(there(), []);
}

/// A key's hash is another one than before, while an audit looks. The value stays in the map.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_ends_no_value_whose_hash_changes() {
    let map = RefHashMap::with_hasher(BuildHasherDefault::<Fickle>::default());
    TRUE_HASHES.set(usize::MAX);
    for number in 1..=5 {
        map.insert(number, Value::new(number)).unwrap();
    }
    TRUE_HASHES.set(0);
    assert_eq!([audit(&map), audit(&map)], [0, 0]);
    TRUE_HASHES.set(usize::MAX);
    assert_eq!(there(), [1, 2, 3, 4, 5]);
    for number in 1..=5 {
        assert_eq!(map.get(&number).unwrap().0, number);
    }
}

/// A guard that is acquired or removed from the map after an audit has found the node unclaimed.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn an_audit_releases_no_guard_that_is_newer() {
    let recovered = |get: fn(&RefHashMap<u64, u64>) -> Option<HashMapRef<'_, u64>>| {
        let map = RefHashMap::<u64, u64>::new();
        map.insert(1, 10).unwrap();
        std::mem::forget(map.get(&1));
        assert_eq!(audit(&map), 0);
        let guard = get(&map);
        let recovered = audit(&map);
        std::mem::forget(guard);
        recovered
    };
    assert_eq!(recovered(|map| map.get(&1)), 0);
    assert_eq!(recovered(|map| map.insert(1, 20).unwrap()), 0);
    assert_eq!(recovered(|map| map.remove(&1)), 0);
    assert_eq!(recovered(|_| None), 1);
    // The control: without the claim, the audit takes the new guard for an old one.
    assert_eq!(recovered(|map| map.get_unclaimed(&1)), 1);
}

/// An audit releases the guards of an exited thread between the steps of a lookup.
#[test]
#[cfg_attr(miri, ignore = "waits")]
fn a_reader_that_an_audit_overtakes_gets_the_value() {
    for overtakes_after_check in [false, true] {
        let map = RefHashMap::new();
        map.insert(1, Value::new(1)).unwrap();
        std::mem::forget(map.get(&1));
        assert_eq!(audit(&map), 0);
        std::thread::sleep(2 * TIME);
        let mut recovered = 0;
        let guard = map.get_between::<true>(&1, |is_checked| {
            if is_checked == overtakes_after_check {
                // SAFETY: the only thread is here, in an operation that has just begun.
                recovered += unsafe { map.audit(Duration::from_millis(1)) }.unclaimed;
            }
        });
        assert_eq!((recovered, guard.as_ref().unwrap().0), (1, 1));
        // Only this guard counts beside the map's.
        drop((map.remove(&1), guard));
        assert_eq!(there(), []);
    }
}

/// While audits run, others insert, read and remove: they recover nothing.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn an_audit_beside_others_recovers_nothing() {
    let map = RefHashMap::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (map, done) = (&map, &done);
            scope.spawn(move || {
                for round in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
                    let key = (round * 7 + thread) % 300;
                    _ = map.insert(key, key.to_string()).unwrap();
                    let read = map.get(&(key / 2));
                    assert!(read.is_none_or(|text| *text == (key / 2).to_string()));
                    _ = map.remove(&(round % 301));
                }
            });
        }
        for _ in 0..50 * SCALE {
            // SAFETY: no operation and no guard lasts for an hour.
            let audit = unsafe { map.audit(Duration::from_secs(3600)) };
            assert_eq!(audit.unclaimed, 0);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(map.nodes(), map.len());
}
