use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::{Found, home};
use super::*;
use crate::local::points::point;
use crate::local::points::testing::interrupted;

#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_map_behaves_as_its_model() {
    let map: Map<usize, u32, 64> = Map::new();
    let mut model = BTreeMap::new();
    let mut random = 1u64;
    for step in 0..20_000u32 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let key = match (random >> 33) as usize % 80 {
            0 => usize::MAX,
            key => key - 1,
        };
        let room = model.len() < 60;
        match (random >> 50) % 4 {
            0 if room => assert_eq!(map.insert(key, step).unwrap(), model.insert(key, step)),
            1 if room => {
                map.add(key, step).unwrap();
                let value = model.entry(key).or_insert(0u32);
                *value = value.wrapping_add(step);
            }
            2 => assert_eq!(map.get(key), model.get(&key).copied()),
            _ => assert_eq!(map.remove(key), model.remove(&key)),
        }
        assert_eq!(map.len(), model.len());
        assert_eq!(map.contains_key(key), model.contains_key(&key));
    }
    assert!(!model.is_empty());
    assert_eq!(map.iter().collect::<BTreeMap<_, _>>(), model);
    assert_eq!(map.iter().count(), model.len());
    assert_eq!(map.drain().collect::<BTreeMap<_, _>>(), model);
    assert!(map.is_empty() && map.iter().next().is_none());
}

#[test]
fn an_insertion_into_a_full_map_returns_the_value() {
    let map: Map<usize, Box<usize>, 4> = Map::new();
    for key in 1..=4 {
        assert!(map.insert(key, Box::new(key)).unwrap().is_none());
    }
    let Full(value) = map.insert(5, Box::new(50)).unwrap_err();
    assert_eq!(*value, 50);
    // Values can still be replaced, and the two special keys have entries of their own.
    assert_eq!(map.insert(3, Box::new(30)).unwrap(), Some(Box::new(3)));
    assert!(map.insert(0, Box::new(0)).unwrap().is_none());
    assert!(map.insert(usize::MAX, Box::new(1)).unwrap().is_none());
    assert_eq!(map.len(), 6);
    assert_eq!(map.remove(2), Some(Box::new(2)));
    assert!(map.insert(5, value).unwrap().is_none());
    assert_eq!(
        map.insert(6, Box::new(0)).unwrap_err().to_string(),
        "the map is full: remove keys, drain it, or give its type a larger capacity"
    );
}

#[test]
fn integers_of_any_width_add_up() {
    let map: Map<u8, i8, 4> = Map::new();
    map.add(1, -3).unwrap();
    map.add(1, 1).unwrap();
    map.add(2, 127).unwrap();
    map.add(2, 2).unwrap();
    assert_eq!((map.get(1), map.get(2)), (Some(-2), Some(-127)));
}

#[test]
fn removals_leave_no_tombstones() {
    let map: Map<usize, usize, 16> = Map::new();
    for key in 1..10_000 {
        map.insert(key, key).unwrap();
        if key > 8 {
            assert_eq!(map.remove(key - 8), Some(key - 8));
        }
    }
    map.drain().for_each(drop);
    assert!(map.entries.iter().all(|entry| entry.key.word() == FREE));
}

#[test]
fn an_insertion_without_free_entries_frees_tombstones() {
    let map: Map<usize, usize, 64> = Map::new();
    (1..=64).for_each(|key| assert_eq!(map.insert(key, key), Ok(None)));
    (3..=64).for_each(|key| assert_eq!(map.remove(key), Some(key)));
    assert!(map.entries.iter().all(|entry| entry.key.word() != FREE));
    map.insert(1000, 1).unwrap();
    let free = |entry: &&Entry| entry.key.word() == FREE;
    assert!(map.entries.iter().filter(free).count() > 32);
    assert_eq!(
        [1, 2, 1000, 3].map(|key| map.get(key)),
        [Some(1), Some(2), Some(1), None]
    );
}

const CHURNED: usize = 1024;

/// Replaces keys, 40 times as many as there are, and returns how many entries a search in vain
/// passes then, on average.
fn passed_while_keys_come_and_go(keys: usize, mut next: impl FnMut() -> usize) -> usize {
    const N: usize = CHURNED;
    let map: Map<usize, usize, N> = Map::new();
    let insert = |key| assert_eq!(map.insert(key, key).unwrap(), None);
    let mut keys: Vec<usize> = (0..keys).map(|_| next()).collect();
    keys.iter().copied().for_each(insert);
    let (mut passed, mut random) = (0, 1u32);
    for _round in 0..40 {
        for _key in 0..keys.len() {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let place = (random >> 8) as usize % keys.len();
            let key = &mut keys[place];
            map.remove(*key).unwrap();
            *key = next();
            insert(*key);
        }
        // What searches in vain pass, from each entry on.
        let is_free = |index: &usize| map.entry(*index % N).key.word() == FREE;
        passed += (0..N)
            .map(|home| (home..home + N).take_while(|at| !is_free(at)).count())
            .sum::<usize>();
    }
    passed / 40 / N
}

/// Tombstones must not take the place of all free entries. Half of the entries have keys.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn probes_stay_short_while_keys_come_and_go() {
    let mut number = 0usize;
    // Each step is a bijection, so no key comes twice.
    let passed = passed_while_keys_come_and_go(CHURNED / 2, || {
        number += 1;
        let mixed = number.wrapping_mul(0x2c1b_3c6d);
        (mixed ^ mixed >> 15).wrapping_mul(0x297a_2d39)
    });
    assert!(passed < 16, "{passed} entries on average");
}

/// As multiples of the golden ratio alone, keys at the last distances would lie in long rows.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn probes_stay_short_for_keys_at_equal_distances() {
    for distance in [1, 8, 64, 4096, 0xa98f, 0x670a] {
        let mut key = 0;
        let passed = passed_while_keys_come_and_go(CHURNED * 6 / 10, || {
            key += distance;
            key
        });
        assert!(
            passed < 32,
            "{passed} entries on average, at distance {distance}"
        );
    }
}

#[test]
fn a_dropped_map_drops_its_values_once() {
    let shared = Arc::new(());
    let map: Map<usize, Arc<()>, 8> = Map::new();
    for key in 0..8 {
        drop(map.insert(key, shared.clone()).unwrap());
    }
    drop(map.insert(0, shared.clone()).unwrap());
    drop(map.insert(5, shared.clone()).unwrap());
    drop(map.remove(7));
    assert_eq!(Arc::strong_count(&shared), 8);
    drop(map);
    assert_eq!(Arc::strong_count(&shared), 1);
}

type Small = Map<usize, usize, 4>;

/// Three keys whose home is the same entry, the second last.
fn keys() -> [usize; 3] {
    let mut keys = (1..).filter(|key| home(*key, 4) == 2);
    std::array::from_fn(|_| keys.next().unwrap())
}

/// The result of an operation.
type Returned = Vec<Option<usize>>;

/// A name, and an operation on a map.
type Operation = (String, Box<dyn Fn(&Small) -> Returned>);

fn operations() -> Vec<Operation> {
    type Named = (&'static str, fn(&Small, usize) -> Returned);
    let simple: [Named; 6] = [
        ("insert", |map, key| match map.insert(key, 100) {
            Ok(old) => vec![Some(1), old],
            Err(Full(value)) => vec![None, Some(value)],
        }),
        ("add", |map, key| vec![map.add(key, 1000).ok().map(|()| 0)]),
        ("get", |map, key| vec![map.get(key)]),
        ("contains", |map, key| {
            vec![map.contains_key(key).then_some(1)]
        }),
        ("remove", |map, key| vec![map.remove(key)]),
        ("length", |map, _| vec![Some(map.len())]),
    ];
    let mut all: Vec<Operation> = Vec::new();
    for key in keys().into_iter().chain([0, usize::MAX]) {
        for (name, operation) in simple {
            all.push((
                format!("{name} {key}"),
                Box::new(move |map| operation(map, key)),
            ));
        }
    }
    all
}

/// Operations that only a handler does: several in a row.
fn series() -> Vec<Operation> {
    let [a, b, c] = keys();
    vec![
        ("nothing".into(), Box::new(|_| Returned::new())),
        (
            "move a key to an earlier entry".into(),
            Box::new(move |map| {
                let mut answer = vec![map.remove(a)];
                let value = map.remove(b);
                answer.push(value);
                answer.push(map.insert(b, 7).ok().flatten());
                answer
            }),
        ),
        (
            "put another key into a key's entry".into(),
            Box::new(move |map| {
                let mut answer = vec![map.remove(b)];
                answer.push(map.insert(c, 8).ok().flatten());
                answer
            }),
        ),
        (
            "drain".into(),
            Box::new(|map| {
                let mut answer: Returned =
                    map.drain().map(|(key, value)| Some(key ^ value)).collect();
                answer.sort_unstable();
                answer
            }),
        ),
        (
            "fill".into(),
            Box::new(move |map| {
                let keys = [a, b, c].into_iter().chain(1000..1005);
                keys.map(|key| map.insert(key, key).ok().flatten())
                    .collect()
            }),
        ),
        (
            "take out and put back".into(),
            Box::new(move |map| {
                let value = map.remove(a);
                vec![value, map.insert(a, 9).ok().flatten()]
            }),
        ),
    ]
}

/// The initial maps: every subset of the keys, some of them behind a tombstone.
fn initial_maps() -> Vec<Box<dyn Fn() -> Small>> {
    let mut all: Vec<Box<dyn Fn() -> Small>> = Vec::new();
    for there in 0..8usize {
        for gone_before in [false, true] {
            for full in [false, true] {
                all.push(Box::new(move || {
                    let map = Small::new();
                    let first = (5000..).find(|key| home(*key, 4) == 2).unwrap();
                    if gone_before {
                        map.insert(first, 1).unwrap();
                    }
                    for (index, key) in keys().into_iter().enumerate() {
                        if there & (1 << index) != 0 {
                            map.insert(key, key).unwrap();
                        }
                    }
                    map.insert(0, 5).unwrap();
                    if full {
                        (6000..6004).for_each(|key| _ = map.insert(key, 2));
                    }
                    if gone_before {
                        map.remove(first);
                    }
                    map
                }));
            }
        }
    }
    all
}

/// Returns the pairs, and checks that each key is there once and is found.
fn content(map: &Small) -> BTreeMap<usize, usize> {
    let pairs: Vec<_> = map.iter().collect();
    let content: BTreeMap<_, _> = pairs.iter().copied().collect();
    assert_eq!(pairs.len(), content.len(), "a key is twice in {pairs:?}");
    assert_eq!(map.len(), pairs.len());
    for (key, value) in &content {
        assert_eq!(
            map.get(*key),
            Some(*value),
            "{key} is not found in {pairs:?}"
        );
    }
    content
}

#[test]
fn an_interrupted_operation_is_serializable() {
    let mut interruptions = 0;
    for begin in initial_maps() {
        for (name, operation) in operations() {
            for (others_name, other) in operations().into_iter().chain(series()) {
                let serially = |other_first: bool| {
                    let map = begin();
                    let (mine, others) = if other_first {
                        let others = other(&map);
                        (operation(&map), others)
                    } else {
                        let mine = operation(&map);
                        (mine, other(&map))
                    };
                    (mine, others, content(&map))
                };
                let legal = [serially(true), serially(false)];
                for at in 0.. {
                    let map = begin();
                    let mut others = None;
                    let handler = || others = Some(other(&map));
                    let Some(mine) = interrupted(at, handler, || operation(&map)) else {
                        break;
                    };
                    interruptions += 1;
                    let outcome = (mine, others.unwrap(), content(&map));
                    assert!(
                        legal.contains(&outcome),
                        "{name}, interrupted at {at} by {others_name}: {outcome:?}, not one of {legal:?}"
                    );
                }
            }
        }
    }
    println!("{interruptions} interruptions");
    assert!(interruptions > 10_000, "only {interruptions}");
}

#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn an_interrupted_iteration_returns_remaining_keys_once() {
    let mut interruptions = 0;
    for begin in initial_maps() {
        for (others_name, other) in operations().into_iter().chain(series()) {
            for at in 0.. {
                let map = begin();
                let before = content(&map);
                let mut after = BTreeMap::new();
                let handler = || {
                    other(&map);
                    after = content(&map);
                };
                let iterate = || map.iter().collect::<Vec<_>>();
                let Some(given) = interrupted(at, handler, iterate) else {
                    break;
                };
                interruptions += 1;
                for (key, value) in &before {
                    if after.get(key) == Some(value) && !others_name.contains("take out") {
                        let times = given.iter().filter(|pair| **pair == (*key, *value)).count();
                        assert_eq!(times, 1, "{key}, interrupted at {at} by {others_name}");
                    }
                }
                for pair in given {
                    let [was, is] = [&before, &after].map(|map| map.get(&pair.0) == Some(&pair.1));
                    assert!(was || is, "{pair:?} was never there");
                }
            }
        }
    }
    assert!(interruptions > 1000, "only {interruptions}");
}

#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn an_interrupted_drain_returns_every_value_once() {
    for begin in initial_maps() {
        for amount in [0, 1] {
            for at in 0.. {
                let map = begin();
                let before: usize = map.iter().map(|(_, value)| value).sum();
                let handler = || keys().iter().for_each(|key| _ = map.add(*key, amount));
                let drain = || map.drain().map(|(_, value)| value).sum::<usize>();
                let Some(taken) = interrupted(at, handler, drain) else {
                    break;
                };
                let left: usize = map.iter().map(|(_, value)| value).sum();
                let refused = map.len().saturating_sub(6);
                assert_eq!(refused, 0);
                let added = taken + left - before;
                assert!(added <= 3 * amount, "{added} of {} came", 3 * amount);
            }
        }
    }
}

/// The control: an insertion that claims without checking the version.
#[test]
fn an_insertion_without_the_check_is_detected() {
    let [a, ..] = keys();
    let twice = (0..20).any(|at| {
        let map = Small::new();
        let handler = || _ = map.insert(a, 1).unwrap();
        let insert = || {
            let probe = Small::probe(a);
            let Found::Room(room) = map.search(probe) else {
                return;
            };
            point();
            let now = map.version();
            // SAFETY: the address of an entry of this map.
            unsafe {
                claim::rolling(
                    address(&map),
                    now,
                    map.at((room.index + 1) % 4),
                    probe.mark,
                    2,
                )
            };
        };
        interrupted(at, handler, insert).is_some() && map.iter().count() == 2
    });
    assert!(twice, "no key was ever twice in the map");
}
