//! The hash map: against std's, with each step of a split or a merge interrupted by other changes
//! or left unfinished, and under threads while it grows and shrinks.

use std::collections::{BTreeMap, HashMap as Std};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::type_stable;

/// Hashes a number to itself, divided: keys that differ by less share one hash.
#[derive(Clone, Copy, Default)]
struct Coarse<const BY: u64>(u64);

impl<const BY: u64> Hasher for Coarse<BY> {
    fn finish(&self) -> u64 {
        self.0 / BY
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

type Colliding<const BY: u64> = BuildHasherDefault<Coarse<BY>>;

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn sorted<S: BuildHasher>(map: &HashMap<u64, u64, S>) -> Vec<(u64, u64)> {
    let mut entries = Vec::from_iter(map);
    entries.sort();
    entries
}

/// Performs one operation on a map and on the model, and compares the results.
fn both<S: BuildHasher>(
    map: &HashMap<u64, u64, S>,
    model: &mut BTreeMap<u64, u64>,
    which: u64,
    key: u64,
    value: u64,
) {
    let before = model.get(&key).copied();
    match which % 9 {
        0 | 1 => assert_eq!(map.insert(key, value), Ok(model.insert(key, value))),
        2 => {
            model.entry(key).or_insert(value);
            let refused = before.map_or(Ok(()), |_| Err(Refused::Present));
            assert_eq!(map.try_insert(key, value), refused);
        }
        3 | 4 => assert_eq!(map.remove(&key), model.remove(&key)),
        5 => assert_eq!(map.get(&key), before),
        6 => {
            model.entry(key).and_modify(|there| *there += value);
            assert_eq!(map.update(&key, |there| there + value), Ok(before));
        }
        7 => {
            let new = value.is_multiple_of(2).then_some(value);
            let right = before.filter(|value| value % 3 != 0);
            let expected = if right == before {
                Ok(())
            } else {
                Err(Different::Value(before))
            };
            assert_eq!(map.compare_exchange(key, right, new), expected);
            if expected.is_ok() {
                model.remove(&key);
                model.extend(new.map(|new| (key, new)));
            }
        }
        _ => {
            assert_eq!(map.contains_key(&key), before.is_some());
            let bucket = map.snapshot(&key);
            assert_eq!(
                bucket.contains(&(key, before.unwrap_or(0))),
                before.is_some()
            );
        }
    }
    assert_eq!(map.len(), model.len());
}

fn matches_a_map<S: BuildHasher>(map: HashMap<u64, u64, S>, keys: u64, steps: usize) {
    let mut model = BTreeMap::new();
    let seed = &mut 1;
    for step in 0..rounds(steps) {
        let key = random(seed) % keys;
        both(&map, &mut model, random(seed), key, random(seed) % 100);
        if step % 512 == 0 {
            assert_eq!(sorted(&map), Vec::from_iter(model.clone()));
        }
    }
    assert_eq!(sorted(&map), Vec::from_iter(model.clone()));
    map.clear();
    assert_eq!((map.len(), map.iter().next()), (0, None));
    map.insert(1, 1).unwrap();
    assert_eq!(Vec::from_iter(map), [(1, 1)]);
}

#[test]
fn it_matches_stds_map() {
    matches_a_map(HashMap::new(), 16, 4_000 * SCALE);
    matches_a_map(HashMap::new(), 3_000, 20_000 * SCALE);
    matches_a_map(HashMap::with_capacity(1_000), 3_000, 4_000 * SCALE);
}

/// Buckets overflow: their entries lie in nodes.
#[test]
fn keys_may_collide() {
    matches_a_map(
        HashMap::with_hasher(Colliding::<8>::default()),
        300,
        8_000 * SCALE,
    );
    matches_a_map(
        HashMap::with_hasher(Colliding::<100>::default()),
        100,
        4_000 * SCALE,
    );
}

/// Hashers that leave keys as they are give hashes that differ in a few bits only, such as the high
/// ones of floating-point numbers, or whose halves are equal, as of pairs.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn keys_spread_whichever_bits_of_their_hashes_differ() {
    let check = |what: &str, shift: u32, key: &dyn Fn(u64) -> u64| {
        let map = HashMap::<u64, (), _>::with_hasher(Colliding::<1>::default());
        let keys = || (0..1000).map(key);
        keys().for_each(|key| _ = map.insert(key, ()).unwrap());
        let max = keys().map(|key| map.snapshot(&key).len()).max();
        assert!(max < Some(20), "{max:?} {what} in a bucket at {shift}");
    };
    for shift in 0..=54 {
        check("keys", shift, &|key| key << shift);
        check("keys downwards", shift, &|key| key.wrapping_neg() << shift);
        check("pairs", shift, &|key| (key << 32 | key).rotate_left(shift));
        check("grid points", shift, &|key| key & 31 | (key & !31) << shift);
        check("products", shift, &|key| {
            key.wrapping_mul(0x9e37_79b9_7f4a_7c15) << (shift / 2)
        });
    }
}

/// Keys at some equal distances, without a hasher that spreads them, have hashes that share their
/// top bits for long.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn it_grows_and_shrinks_with_keys_at_any_distance() {
    const COUNT: u64 = 3000;
    for distance in [1, 615, 1353, 28_657, 433_494_437, 701_408_733] {
        let map = HashMap::<u64, (), _>::with_hasher(Colliding::<1>::default());
        for key in 0..COUNT {
            map.insert(distance * key, ()).unwrap();
        }
        let buckets = map.buckets();
        assert!(buckets > COUNT as usize / 2, "{buckets} at {distance}");
        for key in 0..COUNT - 100 {
            map.remove(&(distance * key)).unwrap();
        }
        let buckets = map.buckets();
        assert!(buckets < COUNT as usize / 4, "{buckets} at {distance}");
    }
}

#[test]
fn it_grows_and_shrinks() {
    let map = HashMap::<u64, u64>::new();
    let count = if cfg!(miri) { 400 } else { 20_000 };
    for key in 0..count {
        assert_eq!(map.insert(key, key * key), Ok(None));
    }
    assert!(
        map.buckets() >= count as usize / 3,
        "{} buckets",
        map.buckets()
    );
    assert!((0..count).all(|key| map.get(&key) == Some(key * key)));
    assert_eq!(map.iter().count(), count as usize);
    for key in 0..count {
        assert_eq!(map.remove(&key), Some(key * key));
    }
    assert!(
        map.buckets() < count as usize / 16,
        "{} buckets",
        map.buckets()
    );
    assert!(map.is_empty());
}

#[test]
fn keys_and_values_have_any_size() {
    let set = HashMap::<u16>::from_iter((0..500).map(|key| (key, ())));
    assert!(set.contains_key(&3) && !set.contains_key(&500));
    let one = HashMap::<(), u8>::new();
    assert_eq!(
        (one.insert((), 1), one.insert((), 2)),
        (Ok(None), Ok(Some(1)))
    );
    let large = HashMap::<[u64; 9], [u8; 77]>::new();
    for key in 0..500 {
        large.insert([key; 9], [key as u8; 77]).unwrap();
    }
    assert!((0..500).all(|key| large.get(&[key; 9]) == Some([key as u8; 77])));
}

plain! {
    #[derive(Debug, PartialEq, Eq, Hash)]
    #[repr(align(32))]
    struct Aligned {
        words: [u64; 4],
    }
}

plain! {
    #[derive(Debug, PartialEq, Eq, Hash)]
    #[repr(align(128))]
    struct Line {
        words: [u64; 16],
    }
}

plain! {
    #[derive(Debug, PartialEq, Eq, Hash)]
    #[repr(align(131072))]
    struct Large {
        words: [u64; 16384],
    }
}

/// A bucket checks the alignment of its entries in debug builds.
#[test]
fn keys_and_values_have_any_alignment() {
    let map = HashMap::<Aligned, Line>::new();
    let entry = |n| (Aligned { words: [n; 4] }, Line { words: [n; 16] });
    for n in 0..500 {
        let (key, value) = entry(n);
        map.insert(key, value).unwrap();
    }
    assert!((0..500).all(|n| map.get(&entry(n).0) == Some(entry(n).1)));
    let large = HashMap::<Large, (), _>::try_with_capacity_and_hasher(0, Colliding::<1>::default());
    assert_eq!(large.err(), Some(type_stable::Error::TooLarge));
}

/// Neither insertions nor removals change the number of buckets.
#[test]
fn a_capacity_is_kept() {
    let count = rounds(1_000);
    let map = HashMap::<u64, u64>::with_capacity(count);
    let buckets = map.buckets();
    assert!(buckets >= (2 * count).div_ceil(3));
    let count = count as u64;
    for key in 0..count {
        map.insert(key, key).unwrap();
        assert_eq!(map.buckets(), buckets);
    }
    for key in 0..count {
        assert_eq!(map.remove(&key), Some(key));
        assert_eq!(map.buckets(), buckets);
    }
    (&map).extend((0..5 * count).map(|key| (key, key)));
    assert!(map.buckets() > buckets);
    map.clear();
    assert_eq!(map.buckets(), buckets);
}

/// Removals of any entry start at a hint, which may lie anywhere.
#[test]
fn every_entry_is_popped() {
    let map = HashMap::<u64, u64>::new();
    let seed = &mut 3;
    let mut left = std::collections::BTreeMap::new();
    for round in 0..20 {
        let count = random(seed) % rounds(1_000) as u64;
        for key in round * 1_000..round * 1_000 + count {
            map.insert(key, key + 1).unwrap();
            left.insert(key, key + 1);
        }
        let all = left.len() as u64;
        let popped = if round % 4 == 3 {
            all
        } else {
            random(seed) % all.max(1)
        };
        for _ in 0..popped {
            let (key, value) = map.pop().unwrap();
            assert_eq!(left.remove(&key), Some(value));
        }
        assert_eq!(map.len(), left.len());
        if left.is_empty() {
            assert_eq!((map.pop(), map.buckets()), (None, 8));
        }
    }
}

thread_local! {
    static HASHES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts the keys that it hashes: each takes a hasher of its own.
struct Counting;

impl BuildHasher for Counting {
    type Hasher = std::hash::DefaultHasher;

    fn build_hasher(&self) -> Self::Hasher {
        HASHES.set(HASHES.get() + 1);
        Self::Hasher::new()
    }
}

/// Where an entry lies says which hashes its key may have.
#[test]
fn traversals_of_a_map_that_does_not_change_hash_no_key() {
    let map = HashMap::with_hasher(Counting);
    (&map).extend((0..1_000_u64).map(|key| (key, key)));
    HASHES.set(0);
    assert_eq!(map.iter().count(), 1_000);
    assert_eq!(HASHES.get(), 0);
    // The one of the key that is sought.
    assert!(map.snapshot(&7).contains(&(7, 7)));
    assert_eq!(HASHES.get(), 1);
}

/// It takes about as long as an iteration for each entry, and not for each bucket.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn pops_do_not_search_what_they_have_emptied() {
    let count = 60_000;
    let map = HashMap::<u64, u64>::from_iter((0..count).map(|key| (key, key)));
    let start = Instant::now();
    assert_eq!(map.iter().count() as u64, count);
    let iteration = start.elapsed();
    let start = Instant::now();
    assert_eq!(std::iter::from_fn(|| map.pop()).count() as u64, count);
    assert!(start.elapsed() < 100 * iteration + Duration::from_millis(200));
}

/// A thread changes one key all the time. The bucket of the key is split all the same.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_hot_key_does_not_stop_the_growth() {
    let map = Map::default();
    let hot = u64::MAX;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let add = |count: Option<u64>| Some(count.unwrap_or(0) + 1);
                    map.fetch_update(hot, add).unwrap();
                }
            });
        }
        let start = Instant::now();
        for key in 0..60_000 {
            map.insert(key, key).unwrap();
            if start.elapsed() > Duration::from_secs(20) {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert!(
        map.len() > 60_000 && map.buckets() > 30_000,
        "{} buckets for {} entries",
        map.buckets(),
        map.len()
    );
}

#[test]
fn its_traits_are_those_of_a_map() {
    let entries = [(1, 2), (3, 4)];
    let map = HashMap::<u64, u64>::from_iter(entries);
    assert!(["{1: 2, 3: 4}", "{3: 4, 1: 2}"].contains(&format!("{map:?}").as_str()));
    let std = Std::<u64, u64>::from_iter(&map);
    assert_eq!(std, Std::from_iter(entries));
    assert!(HashMap::<u64>::default().is_empty());
}

type Map = HashMap<u64, u64, Colliding<1>>;

/// A map of a few entries a bucket, some in nodes.
fn filled() -> (Map, BTreeMap<u64, u64>) {
    let map = Map::default();
    let model = BTreeMap::from_iter((0..60).map(|key| (key, key + 1)));
    (&map).extend(model.clone());
    while map.merge_between(|_| true) {}
    assert_eq!(map.buckets(), 8);
    (map, model)
}

/// All other operations, after a step.
fn change_all(map: &Map, model: &mut BTreeMap<u64, u64>, seed: &mut u64) {
    for key in 0..70 {
        both(map, model, random(seed), key, random(seed) % 100);
    }
    assert_eq!(sorted(map), Vec::from_iter(model.clone()));
}

const SPLIT: [Step; 4] = [Step::Claimed, Step::Filled, Step::Nascent, Step::Split];
const MERGE: [Step; 3] = [Step::Frozen, Step::Copied, Step::Merged];

#[test]
fn other_changes_come_between_the_steps() {
    for step in SPLIT.into_iter().chain(MERGE) {
        let (map, mut model) = filled();
        let seed = &mut 7;
        let mut seen = 0;
        let mut once = |now| {
            if now == step {
                seen += 1;
                if seen % 3 == 1 {
                    change_all(&map, &mut model, seed);
                }
            }
            true
        };
        for _ in 0..20 {
            map.split_between(&mut once);
        }
        for _ in 0..20 {
            map.merge_between(&mut once);
        }
        assert!(seen > 0);
        change_all(&map, &mut model, seed);
    }
}

/// A thread that is stopped in a split or a merge delays neither other operations nor the growth.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn stopped_threads_are_overtaken() {
    for step in SPLIT.into_iter().chain(MERGE) {
        let (map, mut model) = filled();
        let seed = &mut 9;
        for _ in 0..5 {
            assert!(map.split_between(|_| true));
        }
        for _ in 0..5 {
            let goes_on = |now| now != step;
            if SPLIT.contains(&step) {
                map.split_between(goes_on);
            } else {
                map.merge_between(goes_on);
            }
            change_all(&map, &mut model, seed);
            let before = map.buckets();
            assert!(
                (0..3).any(|_| map.split_between(|_| true)),
                "{step:?}: {before} buckets"
            );
            change_all(&map, &mut model, seed);
        }
        for key in 100..3_000 {
            map.insert(key, key).unwrap();
            model.insert(key, key);
        }
        assert!(map.buckets() > 1_000, "{step:?}: {} buckets", map.buckets());
        assert_eq!(sorted(&map), Vec::from_iter(model.clone()));
        for key in 100..3_000 {
            assert_eq!(map.remove(&key), model.remove(&key));
        }
        assert!(map.buckets() < 200, "{step:?}: {} buckets", map.buckets());
        change_all(&map, &mut model, seed);
    }
}

#[test]
fn stopped_insertions_withhold_one_entry_each() {
    let (map, mut model) = filled();
    for key in 0..70 {
        map.abandon_insertion(&key);
    }
    let seed = &mut 11;
    for _ in 0..8 {
        change_all(&map, &mut model, seed);
        map.split_between(|_| true);
    }
    for _ in 0..8 {
        change_all(&map, &mut model, seed);
        map.merge_between(|_| true);
    }
}

/// Returns whether a split that other threads interrupt before its commit loses a key.
fn loses_a_key(split: impl Fn(&Map, &mut dyn FnMut(Step) -> bool) -> bool) -> bool {
    (0..200).step_by(6).any(|first| {
        let map = Map::default();
        let keys = first..first + 6;
        let mut insert = |step| {
            if step == Step::Nascent {
                keys.clone()
                    .for_each(|key| _ = map.insert(key, key).unwrap());
            }
            true
        };
        split(&map, &mut insert);
        keys.clone().any(|key| map.get(&key).is_none())
    })
}

/// The control: without its check of the version, a split loses a key.
#[test]
fn a_split_checks_the_version() {
    assert!(!loses_a_key(|map, between| map.split_between(between)));
    assert!(loses_a_key(|map, between| map.split_unchecked(between)));
}

/// Each thread has keys of its own, and finds them while the others make the map grow and shrink.
#[test]
fn nothing_is_lost_while_it_grows_and_shrinks() {
    let map = HashMap::<u64, u64>::new();
    let per_thread = rounds(500 * SCALE) as u64;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let map = &map;
            scope.spawn(move || {
                for round in 0..4 {
                    let keys = || (0..per_thread).map(|key| key * 4 + thread);
                    for key in keys() {
                        assert_eq!(map.insert(key, round), Ok(None));
                    }
                    for key in keys() {
                        assert_eq!(map.get(&key), Some(round));
                        assert_eq!(map.update(&key, |value| value + 10), Ok(Some(round)));
                    }
                    let seen = map.iter().filter(|(key, _)| key % 4 == thread).count();
                    assert_eq!(seen as u64, per_thread);
                    for key in keys() {
                        assert_eq!(map.remove(&key), Some(round + 10));
                    }
                }
            });
        }
    });
    assert_eq!((map.len(), map.iter().next()), (0, None));
}

/// Threads add to the same few counts.
#[test]
fn no_addition_is_lost() {
    let map = HashMap::<u64, u64>::new();
    let rounds = rounds(2_000 * SCALE) as u64;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..rounds {
                    let add = |value: Option<u64>| Some(value.unwrap_or(0) + 1);
                    map.fetch_update(round % 7, add).unwrap();
                }
            });
        }
    });
    assert_eq!(map.iter().map(|(_, value)| value).sum::<u64>(), 4 * rounds);
}
