//! The threads' operations on a cache whose descriptors are on lists, and the invariants
//! afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::Orders::Many;
use crate::dcas::Protection::{ExchangeVersion, LastLook, Retirement};
use crate::models::beside;
use crate::nonblocking::{ListCache, Member};
use crate::sync::step;
use crate::type_stable::Descriptor;
use crate::{fails, holds};

/// A number, which no thread may find to be that of a load that is on no list.
struct Numbered(AtomicU64);

// SAFETY: an atomic word.
unsafe impl Descriptor for Numbered {}

impl Numbered {
    fn set(&self, number: u64) {
        step();
        self.0.store(number, Ordering::SeqCst);
    }

    fn number(&self) -> u64 {
        step();
        self.0.load(Ordering::SeqCst)
    }
}

type Owner = fn(&Member<Numbered, 2>);
type Numbers = ListCache<Numbered, Owner, 2>;

/// A cache of these descriptors, each at the front of the first list of both links.
fn cache_of(limit: usize, numbers: &[u64]) -> Arc<Numbers> {
    let owner: Owner = |victim| victim.set(0);
    let cache = ListCache::try_new(limit, [2, 1], owner).unwrap();
    for number in numbers {
        let new = cache.load().unwrap();
        new.set(*number);
        assert!(cache.list(0, 0).push_front(&new) && cache.list(1, 0).push_front(&new));
    }
    Arc::new(cache)
}

fn lengths(cache: &Numbers) -> [usize; 3] {
    [(0, 0), (0, 1), (1, 0)].map(|(link, number)| cache.list(link, number).len())
}

/// The memory of a descriptor that leaves the cache serves another load, which is on no list.
fn reclaimed() {
    let cache = cache_of(1, &[1]);
    let loaded = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&loaded);
    let other = beside(&cache, move |cache| {
        if let Ok(new) = cache.load() {
            new.set(2);
            count.store(1, Ordering::SeqCst);
        }
    });
    let popped = cache.list(0, 0).pop_front();
    if let Some(popped) = &popped {
        assert_eq!(popped.number(), 1, "a load that is on no list");
    }
    let is_popped = popped.is_some();
    drop(popped);
    other.join().unwrap();
    let left = match (is_popped, loaded.load(Ordering::SeqCst)) {
        (_, 1) => [0, 0, 0],
        (true, _) => [0, 0, 1],
        (false, _) => [1, 0, 1],
    };
    assert_eq!(lengths(&cache), left, "on a list, and gone");
}

#[test]
fn what_is_reclaimed_is_on_no_list() {
    holds("reclaimed descriptors", Many(2_000), reclaimed);
    fails("reclaimed descriptors", "", Retirement, reclaimed);
}

/// One thread unloads what another one pops.
fn unloaded() {
    let cache = cache_of(2, &[1, 2]);
    let other = beside(&cache, |cache| {
        if let Some(found) = cache.list(1, 0).find(|it| it.number() == 1) {
            found.unload();
        }
        if let Ok(new) = cache.load() {
            new.set(3);
        }
    });
    let popped = [(); 2].map(|()| {
        let popped = cache.list(0, 0).pop_front();
        popped.map_or(0, |popped| popped.number())
    });
    assert!(
        [[2, 1], [2, 0], [1, 0], [0, 0]].contains(&popped),
        "{popped:?}"
    );
    other.join().unwrap();
}

#[test]
fn what_is_unloaded_is_popped_by_no_thread() {
    holds("unloaded descriptors", Many(2_000), unloaded);
    fails("unloaded descriptors", "", Retirement, unloaded);
}

/// Two threads put one descriptor on two lists of a link.
fn claims() {
    let cache = cache_of(1, &[1]);
    cache.list(0, 0).pop_front();
    let put = |cache: &Numbers, number: usize| {
        let found = cache.list(1, 0).find(|_| true).expect("it is on that list");
        cache.list(0, number).push_back(&found)
    };
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let other = beside(&cache, move |cache| {
        counted.fetch_add(usize::from(put(cache, 0)), Ordering::SeqCst);
    });
    count.fetch_add(usize::from(put(&cache, 1)), Ordering::SeqCst);
    other.join().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1, "on two lists of a link");
    let [one, other, _] = lengths(&cache);
    assert_eq!(one + other, 1, "on two lists of a link");
}

#[test]
fn a_descriptor_is_on_one_list_of_a_link() {
    holds("claims of a descriptor", Many(2_000), claims);
    let twice = "on two lists of a link";
    fails("claims of a descriptor", twice, ExchangeVersion, claims);
}

/// A descriptor moves from one list to another, and one is always behind it.
fn walks() {
    let cache = cache_of(2, &[1, 2]);
    let other = beside(&cache, |cache| {
        let moved = cache.list(0, 0).pop_front().expect("only this thread pops");
        assert!(cache.list(0, 1).push_front(&moved));
    });
    let list = cache.list(0, 0);
    let is_seen = list.fold(false, |is_seen, it| is_seen || it.number() == 1);
    assert!(is_seen, "missed what was always there");
    other.join().unwrap();
    assert_eq!(lengths(&cache), [1, 1, 2]);
}

#[test]
fn a_walk_stays_on_its_list() {
    holds("walks", Many(2_000), walks);
    fails("walks", "missed what was always there", LastLook, walks);
}
