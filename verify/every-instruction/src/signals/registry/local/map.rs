//! [`Map`]: its operations are several sequences each, and still appear atomic.

use atomseq::local::Map;

use super::found;
use crate::scenario::{Check, Fresh, Named, Words, each};

type Four = Map<u64, u64, 4>;

/// Returns the n-th key whose home is the third of the four entries (see the hash in the map's
/// file), so that all these keys share a probe sequence.
fn key(n: usize) -> u64 {
    let home = |key: &u64| {
        let product = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (((product ^ product >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32) * 4) >> 32
    };
    (1..)
        .filter(|key| home(key) == 2)
        .nth(n)
        .expect("there are enough numbers")
}

/// A key that has an entry of its own.
const SPECIAL: u64 = 0;

#[inline(never)]
fn insert(map: &Four, key: u64, value: u64) -> Words {
    match map.insert(key, value) {
        Ok(before) => found(before),
        Err(full) => vec![u64::MAX, full.0],
    }
}

#[inline(never)]
fn add(map: &Four, key: u64, amount: u64) -> Words {
    map.add(key, amount)
        .err()
        .map(|full| full.0)
        .into_iter()
        .collect()
}

#[inline(never)]
fn remove(map: &Four, key: u64) -> Words {
    found(map.remove(key))
}

#[inline(never)]
fn get(map: &Four, key: u64) -> Words {
    found(map.get(key))
}

#[inline(never)]
fn contains(map: &Four, key: u64) -> Words {
    vec![map.contains_key(key).into()]
}

#[inline(never)]
fn len(map: &Four) -> Words {
    vec![map.len() as u64]
}

/// An iterator reads one entry at a time: the entry found first depends on its position when the
/// interruption arrived. But the entry that it finds has its value.
#[inline(never)]
fn first(map: &Four) -> Words {
    let found = map.iter().next().into_iter();
    found.map(|(_, value)| u64::from(value != 0)).collect()
}

fn empty() -> Four {
    Four::new()
}

fn one() -> Four {
    let map = empty();
    insert(&map, key(0), 100);
    map
}

fn special() -> Four {
    let map = one();
    insert(&map, SPECIAL, 300);
    map
}

fn two() -> Four {
    let map = one();
    insert(&map, key(1), 200);
    map
}

/// The first key of a probe sequence was removed, the second is present.
fn first_removed() -> Four {
    let map = two();
    remove(&map, key(0));
    map
}

/// All four entries hold keys of one probe sequence.
fn full() -> Four {
    let map = two();
    insert(&map, key(2), 300);
    insert(&map, key(3), 400);
    map
}

/// Of four keys of one probe sequence, the last is left.
fn last() -> Four {
    let map = full();
    (0..3).for_each(|n| drop(remove(&map, key(n))));
    map
}

const INTERFERENCES: &[Named<Four>] = &[
    ("insert of the key", |map| insert(map, key(0), 8)),
    ("insert of another key", |map| insert(map, key(1), 7)),
    ("add to the key", |map| add(map, key(0), 5)),
    ("remove of the key", |map| remove(map, key(0))),
    ("remove of another key", |map| remove(map, key(1))),
    ("remove of the key and insert of another", |map| {
        [remove(map, key(0)), insert(map, key(4), 6)].concat()
    }),
    ("remove of the key and insert of it", |map| {
        [remove(map, key(0)), insert(map, key(0), 3)].concat()
    }),
    ("insert of the special key", |map| insert(map, SPECIAL, 4)),
];

/// Returns the values found, the reported length, and whether there is room: by the tested
/// operations.
fn content(map: &Four) -> Words {
    let keys = (0..5).map(key).chain([SPECIAL]);
    let found = keys.flat_map(|key| [vec![key], get(map, key)].concat());
    let mut content: Words = found.collect();
    content.extend(len(map));
    content.extend(insert(map, key(5), 1));
    content
}

pub fn check(checker: &mut impl Check) {
    let states: [(&str, Fresh<Four>); 7] = [
        ("empty", empty),
        ("one key", one),
        ("a key, and the special one", special),
        ("two keys on one way", two),
        ("the first of two on one way removed", first_removed),
        ("full", full),
        ("the last of four", last),
    ];
    let operations: [Named<Four>; 8] = [
        ("local::Map::insert", |map| insert(map, key(0), 9)),
        ("local::Map::insert, special", |map| insert(map, SPECIAL, 9)),
        ("local::Map::add", |map| add(map, key(0), 9)),
        ("local::Map::remove", |map| remove(map, key(0))),
        ("local::Map::get", |map| get(map, key(0))),
        ("local::Map::contains_key", |map| contains(map, key(0))),
        ("local::Map::len", len),
        ("local::Map::iter().next", first),
    ];
    each(checker, &states, &operations, INTERFERENCES, content);
    let others: [Named<Four>; 5] = [
        ("local::Map::remove, last of a way", |map| {
            remove(map, key(1))
        }),
        ("local::Map::remove, last of all", |map| remove(map, key(3))),
        ("local::Map::remove, special", |map| remove(map, SPECIAL)),
        ("local::Map::drain, first", drain_first),
        ("local::Map::get, special", |map| get(map, SPECIAL)),
    ];
    each(checker, &states, &others, INTERFERENCES, content);
}

#[inline(never)]
fn drain_first(map: &Four) -> Words {
    map.drain()
        .next()
        .into_iter()
        .flat_map(|(key, value)| [key, value])
        .collect()
}
