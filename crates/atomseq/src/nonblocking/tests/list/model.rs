//! Comparison with a sequential model: random operations, and each operation interrupted by each
//! other between its first read and its change.

use std::collections::BTreeMap;

use super::*;

type Model = BTreeMap<u64, u64>;

/// Performs one operation on a list and on the model, and compares the results.
fn both(list: &List<u64, u64>, model: &mut Model, which: usize, key: u64, value: u64) {
    match which % 8 {
        0 => {
            let there = model.contains_key(&key);
            model.entry(key).or_insert(value);
            let refused = Err(Refused::Present);
            assert_eq!(
                list.try_insert(key, value),
                if there { refused } else { Ok(()) }
            );
        }
        1 => assert_eq!(list.remove(&key), Ok(model.remove(&key))),
        2 => assert_eq!(list.get(&key), Ok(model.get(&key).copied())),
        3 => assert_eq!(list.insert(key, value), Ok(model.insert(key, value))),
        4 => {
            let before = model.get(&key).copied();
            model.entry(key).and_modify(|there| *there = value);
            assert_eq!(list.replace(&key, value), Ok(before));
        }
        5 => {
            let before = model.get(&key).copied();
            model.entry(key).and_modify(|there| *there += value);
            assert_eq!(list.update(&key, |there| there + value), Ok(before));
        }
        6 => assert_eq!(list.pop_first(), model.pop_first()),
        _ => {
            let removed = list.check_out(&key).unwrap();
            assert_eq!(removed.is_some(), model.contains_key(&key));
            if let Some(removed) = removed {
                model.insert(key, removed.value() + value);
                let value = removed.value() + value;
                removed.check_in(value).unwrap();
            }
        }
    }
}

fn is_like(list: &List<u64, u64>, model: &Model) {
    let entries: Vec<(u64, u64)> = model.iter().map(|(key, value)| (*key, *value)).collect();
    assert_eq!(list.snapshot(), entries);
    assert_eq!(Vec::from_iter(list), entries);
    assert_eq!(list.first(), entries.first().copied());
    assert_eq!(
        (list.len(), list.is_empty()),
        (entries.len(), entries.is_empty())
    );
    let mut some = [(0, 0); 5];
    let count = list.copy_first(&mut some);
    assert_eq!(some[..count], entries[..entries.len().min(5)]);
}

#[test]
fn it_matches_a_map() {
    for mechanism in MECHANISMS {
        let (list, mut model) = (List::forced(mechanism), Model::new());
        let seed = &mut 1;
        for step in 0..rounds(1_500 * SCALE) {
            let (which, key) = (random(seed), random(seed) as u64 % 24);
            // Adds more of the operation that makes the list longer.
            let which = if random(seed) & 3 == 0 { 3 } else { which };
            both(&list, &mut model, which, key, random(seed) as u64 % 100);
            if step % 16 == 0 {
                is_like(&list, &model);
            }
        }
        is_like(&list, &model);
    }
}

/// An entry in the model of a list in which keys repeat.
struct Repeated {
    number: usize,
    key: u64,
    value: u64,
    is_checked_out: bool,
}

/// Keys repeat, and entries are checked out meanwhile, and then checked in, forgotten, or leaked.
#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn an_unordered_list_matches_a_sequence() {
    for mechanism in MECHANISMS {
        let list = List::<u64, u64, Unordered>::unordered_forced(mechanism);
        // The model, the newest entry first, and the entries that this thread has checked out.
        let (mut model, mut held) = (Vec::<Repeated>::new(), Vec::new());
        let seed = &mut 7;
        for number in 0..3_000 * SCALE {
            let (key, value) = (random(seed) as u64 % 3, random(seed) as u64 % 100);
            let newest = model.iter().position(|entry| entry.key == key);
            let available = match newest {
                Some(place) if model[place].is_checked_out => None,
                newest => Some(newest),
            };
            match random(seed) % 10 {
                0..3 => {
                    list.push_front(key, value).unwrap();
                    let entry = Repeated {
                        number,
                        key,
                        value,
                        is_checked_out: false,
                    };
                    model.insert(0, entry);
                }
                3 => {
                    let found = list.get(&key).ok();
                    assert_eq!(
                        found,
                        available.map(|place| place.map(|at| model[at].value))
                    );
                }
                4 => {
                    let deleted = list.remove(&key).ok();
                    let at = available.map(|place| place.map(|at| model.remove(at).value));
                    assert_eq!(deleted, at);
                }
                5 => {
                    let first = model.iter().position(|entry| !entry.is_checked_out);
                    let entry = first.map(|at| model.remove(at));
                    let entry = entry.map(|entry| (entry.key, entry.value));
                    assert_eq!(list.pop_first(), entry);
                }
                6 => match (list.check_out(&key), available) {
                    (Err(_), None) | (Ok(None), Some(None)) => (),
                    (Ok(Some(removed)), Some(Some(at))) => {
                        assert_eq!(removed.value(), model[at].value);
                        model[at].is_checked_out = true;
                        held.push((model[at].number, removed));
                    }
                    (removed, _) => panic!("{removed:?}"),
                },
                7 if !held.is_empty() => {
                    let (number, removed) = held.swap_remove(random(seed) % held.len());
                    let entry = model.iter_mut().find(|entry| entry.number == number);
                    match entry {
                        Some(entry) => {
                            removed.check_in(value).unwrap();
                            (entry.value, entry.is_checked_out) = (value, false);
                        }
                        None => assert_eq!(removed.check_in(value), Err(GivenUp)),
                    }
                }
                _ => {
                    let is_checked_out =
                        |entry: &Repeated| entry.key == key && entry.is_checked_out;
                    let at = model.iter().position(is_checked_out);
                    assert_eq!(list.forget_checkout(&key), at.is_some());
                    at.map(|at| model.remove(at));
                }
            }
            let there = model.iter().filter(|entry| !entry.is_checked_out);
            let there = Vec::from_iter(there.map(|entry| (entry.key, entry.value)));
            assert_eq!(list.snapshot(), there);
        }
        // Some holders never check their entries in.
        held.into_iter().for_each(std::mem::forget);
    }
}

/// Longer than the number of nodes between two checks of the version.
#[test]
fn long_lists_are_searched_to_the_end() {
    for mechanism in MECHANISMS {
        let keys = Vec::from_iter(0..200);
        let list = list_of(mechanism, &keys);
        assert!(keys.iter().all(|key| list.get(key) == Ok(Some(key * 10))));
        assert_eq!(list.get(&200), Ok(None));
        assert_eq!(list.len(), 200);
    }
}

/// Each operation runs between the first read and the change of each other one, as in a handler or
/// another thread. The result is that of both, one after the other.
#[test]
fn any_operation_may_interrupt_any_other() {
    for mechanism in MECHANISMS {
        for which in 0..4 {
            for inner in 0..8 {
                for inner_key in [1, 2, 3, 4, 5] {
                    interrupt(mechanism, which, inner, inner_key);
                }
            }
        }
    }
}

fn interrupt(mechanism: Mechanism, which: usize, inner: usize, inner_key: u64) {
    let list = list_of(mechanism, &[2, 3, 4]);
    let mut model = Model::from_iter(list.snapshot());
    let (mut attempts, mut first) = (0, None);
    let gap = |version| {
        attempts += 1;
        first.get_or_insert(version);
        if attempts == 1 {
            both(&list, &mut model, inner, inner_key, 100);
        }
        version
    };
    // The inner operation runs as late as possible, and takes effect first.
    match which {
        0 => {
            let done = list.try_insert_between(3, 7, gap);
            assert_eq!(done.is_ok(), !model.contains_key(&3));
            model.entry(3).or_insert(7);
        }
        1 => {
            let deleted = list.remove_between(&3, gap);
            assert_eq!(deleted, Ok(model.remove(&3)));
        }
        2 => {
            let found = list.get_between(&3, gap);
            assert_eq!(found, Ok(model.get(&3).copied()));
        }
        _ => {
            let popped = list.pop_first_between(gap);
            assert_eq!(popped, model.pop_first());
        }
    }
    // The outer operation noticed the change.
    let changed = list.version() != first.unwrap();
    assert!(attempts > 1 || !changed || which != 2);
    is_like(&list, &model);
}

/// An attempt at an old version changes nothing.
#[test]
fn a_stale_version_changes_nothing() {
    for mechanism in MECHANISMS {
        let list = list_of(mechanism, &[1]);
        let stale = list.version();
        list.insert(2, 20).unwrap();
        let mut attempts = 0;
        let mut gap = |version| {
            attempts += 1;
            if attempts == 1 { stale } else { version }
        };
        list.try_insert_between(3, 30, &mut gap).unwrap();
        assert_eq!(list.snapshot(), [(1, 10), (2, 20), (3, 30)]);
        assert!(attempts >= 2);
    }
}
