//! Tests of closures that use the list that calls them.

use super::*;

type Numbers = List<u64, u64>;
type Elsewhere = fn(&Numbers, u64);
type AtTheKey = fn(&Numbers);

/// What a closure does with the list at other keys than 1, something else in each call.
const ELSEWHERE: [(&str, Elsewhere); 7] = [
    ("replaces", |list, call| {
        list.insert(2, call).unwrap();
    }),
    ("inserts", |list, call| {
        list.try_insert(100 + call, 0).unwrap()
    }),
    ("deletes and inserts", |list, call| {
        list.remove(&3).unwrap();
        list.try_insert(3, call).unwrap();
    }),
    ("counts", |list, _| {
        let count = |count: Option<u64>| count.unwrap_or(0) + 1;
        list.insert_with(4, count).unwrap();
    }),
    ("removes for change", |list, call| {
        let removed = list.check_out(&2).unwrap().unwrap();
        removed.check_in(call).unwrap();
    }),
    ("changes within a change", |list, call| {
        let change = |value| {
            list.insert(3, call + value).unwrap();
            value + 1
        };
        list.update(&2, change).unwrap();
    }),
    ("goes through it", |list, _| {
        assert!(list.fold(0, |count, _, _| count + 1) >= 2);
        assert!(list.iter().count() >= 2);
    }),
];

/// What a closure does at key 1, the same in each call.
const AT_THE_KEY: [(&str, AtTheKey); 3] = [
    ("stores", |list| {
        list.insert(1, 5).unwrap();
    }),
    ("deletes", |list| {
        list.remove(&1).unwrap();
    }),
    ("deletes and inserts", |list| {
        list.remove(&1).unwrap();
        list.try_insert(1, 6).unwrap();
    }),
];

/// Calls `insert_with` or `update` with a closure that adds one and performs `act`. Returns how
/// many times the closure was called.
fn calls(list: &Numbers, by_update: bool, act: impl Fn(u64)) -> u64 {
    let mut calls = 0;
    let mut add_one = |value: Option<u64>| {
        calls += 1;
        assert!(calls < 10, "it is called again and again");
        act(calls);
        value.unwrap_or(0) + 1
    };
    match by_update {
        true => list.update(&1, |value| add_one(Some(value))).unwrap(),
        false => list.insert_with(1, add_one).unwrap(),
    };
    calls
}

#[test]
fn a_closure_may_change_the_list_at_other_keys() {
    for mechanism in MECHANISMS {
        for (name, act) in ELSEWHERE {
            for (keys, by_update) in [([1, 2, 3], true), ([1, 2, 3], false), ([0, 2, 3], false)] {
                let list = list_of(mechanism, &keys);
                let before = list.get(&1).unwrap();
                let calls = calls(&list, by_update, |call| act(&list, call));
                assert_eq!(calls, 1, "{name}");
                let after = before.unwrap_or(0) + 1;
                assert_eq!(list.get(&1), Ok(Some(after)), "{name}");
            }
        }
    }
}

/// The closure is called once more, with what it has stored there itself.
#[test]
fn a_closure_may_change_its_key_to_the_same_each_time() {
    for mechanism in MECHANISMS {
        for (name, act) in AT_THE_KEY {
            let list = list_of(mechanism, &[1, 2]);
            let calls = calls(&list, false, |_| act(&list));
            assert!(calls <= 2, "{name}: {calls} calls");
            let left = list_of(mechanism, &[1, 2]);
            act(&left);
            let value = left.get(&1).unwrap().unwrap_or(0);
            assert_eq!(list.get(&1), Ok(Some(value + 1)), "{name}");
        }
    }
}

/// Bits are compared, not values: an equal value with other bits causes another call.
#[test]
fn a_closure_is_called_again_for_an_equal_value() {
    let list = List::<u64, f64>::new();
    list.try_insert(1, 0.0).unwrap();
    let mut seen = Vec::new();
    let keep = |value: f64| {
        seen.push(value.is_sign_negative());
        assert!(seen.len() < 10, "it is called again and again");
        list.insert(1, -0.0).unwrap();
        value
    };
    list.update(&1, keep).unwrap();
    assert_eq!(seen, [false, true]);
    assert!(list.get(&1).unwrap().unwrap().is_sign_negative());
}
