//! Tests of `List` under both mechanisms: against a sequential model, with interruptions, and by
//! many threads.

use super::*;
use crate::dcas::VersionedWords;
use crate::type_stable;

mod changes;
mod closures;
mod model;
mod races;

/// Returns a list of these keys, each with ten times itself as its value.
fn list_of(mechanism: Mechanism, keys: &[u64]) -> List<u64, u64> {
    let list = List::forced(mechanism);
    for &key in keys {
        list.try_insert(key, key * 10).unwrap();
    }
    list
}

fn random(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

#[test]
fn lists_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<List<u64, [u8; 5]>>();
    check::<List<f64, (), Unordered>>();
    check::<Iter<'_, u64, u64>>();
}

#[test]
#[cfg_attr(miri, ignore = "takes long to interpret")]
fn a_limit_is_kept_and_given_back() {
    let list = List::<u64, u64>::try_with_limit(100).unwrap();
    assert_eq!(list.limit(), 100);
    let held = (0..200).take_while(|&key| list.try_insert(key, 0).is_ok());
    assert_eq!(held.count(), 100);
    let full = Err(Refused::Memory(type_stable::Error::LimitReached));
    assert_eq!(list.try_insert(1000, 0), full);
    assert_eq!(list.try_insert(50, 0), Err(Refused::Present));
    assert_eq!(list.insert(50, 1), full.map(|()| None));
    assert_eq!(list.len(), 100);
    // Removed nodes are reused.
    for key in 1000..11_000 {
        list.pop_first().unwrap();
        list.try_insert(key, 0).unwrap();
    }
    assert_eq!(list.len(), 100);
    let none = List::<u64>::try_with_limit(0).err();
    assert_eq!(none, Some(type_stable::Error::Zero));
}

#[test]
fn siblings_share_memory_and_nothing_else() {
    for mechanism in MECHANISMS {
        let one = list_of(mechanism, &[1, 2, 3]);
        let other = one.sibling();
        assert_eq!(other.mechanism(), one.mechanism());
        other.try_insert(2, 7).unwrap();
        assert_eq!(one.remove(&2), Ok(Some(20)));
        assert_eq!(other.snapshot(), [(2, 7)]);
        assert_eq!(one.snapshot(), [(1, 10), (3, 30)]);
        drop(one);
        for key in 10..100 {
            other.try_insert(key, key).unwrap();
        }
        assert_eq!(other.len(), 91);
    }
    // The node of an entry that an exited thread had checked out is free too.
    for mechanism in MECHANISMS {
        let keeper = List::<u64>::made(VersionedWords::with_mechanism(mechanism), Some(1)).unwrap();
        let list = keeper.sibling();
        list.try_insert(1, ()).unwrap();
        std::mem::forget(list.check_out(&1));
        drop(list);
        keeper.try_insert(2, ()).unwrap();
        assert_eq!(keeper.get(&2), Ok(Some(())));
    }
    // The nodes of a dropped list are free for its siblings.
    let keeper = List::<u64>::try_with_limit(50).unwrap();
    for _ in 0..100 {
        let list = keeper.sibling();
        (0..50).for_each(|key| list.try_insert(key, ()).unwrap());
    }
}

/// A traversal over nodes that are removed and reinserted at the front during it detects that it
/// goes in circles.
#[test]
fn a_walk_in_circles_ends() {
    for mechanism in MECHANISMS {
        let list = List::<u64, u64, Unordered>::unordered_forced(mechanism);
        list.push_front(0, 0).unwrap();
        list.push_front(1, 1).unwrap();
        let mut steps = 0;
        let version = list.chain.versioned.begin();
        let walk = list.chain.seek(version, list.chain.head(), |node| {
            steps += 1;
            assert!(steps < 1000, "it does not end");
            let key = node.key.load();
            let value = list.remove(&key).unwrap().unwrap();
            // The pool reuses the node freed last first.
            list.push_front(key, value).unwrap();
            false
        });
        assert!(walk.is_err());
        // More nodes than there ever were: the path was circular.
        assert!(steps > 2);
    }
}

/// A search may copy anything out of a node that was reused. The version shows that it does not
/// count.
#[test]
fn what_a_late_search_reads_does_not_count() {
    for mechanism in MECHANISMS {
        let list =
            List::<u64, u64>::made(VersionedWords::with_mechanism(mechanism), Some(3)).unwrap();
        list.try_insert(1, 10).unwrap();
        list.try_insert(2, 20).unwrap();
        let chain = &list.chain;
        let search = |version| chain.seek(version, chain.head(), |node| node.key.load() == 2);
        let version = chain.versioned.begin();
        let node = search(version).ok().and_then(|place| place.node).unwrap();
        assert!(chain.check(version).is_ok());
        assert_eq!((node.key.load(), node.value.load()), (2, 20));

        list.remove(&2).unwrap();
        assert_eq!((node.key.load(), node.value.load()), (2, 20));
        assert!(chain.check(version).is_err());
        // Fills all nodes.
        for key in [3, 4] {
            list.try_insert(key, 7 * key).unwrap();
        }
        let key = node.key.load();
        assert!(key >= 3 && node.value.load() == 7 * key);
        assert!(chain.check(version).is_err());
        assert!(search(version).map_or(true, |place| place.node.is_none()));
    }
}

#[test]
fn lists_collect_and_iterate() {
    let list = List::from_iter([(3, 'c' as u32), (1, 'a' as u32), (3, 'd' as u32)]);
    assert_eq!(format!("{list:?}"), "{1: 97, 3: 100}");
    let keys: Vec<i32> = list.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [1, 3]);
    assert_eq!(Vec::from_iter(list), [(1, 97), (3, 100)]);

    let mut list = List::unordered();
    list.extend([(1u8, 1u8), (2, 2), (1, 3)]);
    assert_eq!(list.snapshot(), [(1, 3), (2, 2), (1, 1)]);
    assert_eq!(list.get(&1), Ok(Some(3)));
    assert_eq!(list.remove(&1), Ok(Some(3)));
    assert_eq!(list.get(&1), Ok(Some(1)));
    assert_eq!(list.insert(1, 9), Ok(Some(1)));
    assert_eq!(list.insert(7, 7), Ok(None));
    assert_eq!(Vec::from_iter(list), [(7, 7), (2, 2), (1, 9)]);
}
