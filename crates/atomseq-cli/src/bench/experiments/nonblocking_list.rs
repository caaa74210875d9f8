//! `nonblocking-list`: keys that come and go, and are looked for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{List, ListCache, Member, RefList};
use atomseq::type_stable::descriptor;
use crossbeam_skiplist::SkipMap;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::harris_michael::HarrisMichael;
use crate::bench::peers::mutexed::Mutexed;
use crate::bench::workloads::ordered::{Coming, KEYS, Ordered};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nonblocking-list",
    about: "removing a key, inserting it again and looking for another, in an ordered list of 16 keys a thread",
    cases: cases! {
        "atomseq", "nonblocking::List, by the mechanism of this process",
            |threads| Coming::boxed(threads, List::new());
        "atomseq-kcas", "nonblocking::List by k-CAS, which is portable",
            |threads| Coming::boxed(threads, List::forced(Mechanism::Kcas));
        "harris-michael", "Harris's and Michael's list, compare-and-swap of one word",
            |threads| Coming::boxed(threads, HarrisMichael::new());
        "crossbeam-skip", "crossbeam_skiplist::SkipMap",
            |threads| Coming::boxed(threads, SkipMap::new());
        "mutex", "std::sync::Mutex<BTreeMap>",
            |threads| Coming::boxed(threads, Mutexed::<BTreeMap<u64, u64>>::default());
        "unordered:ref-list", "nonblocking::RefList, whose search visits each value by a counted guard",
            |threads| Coming::boxed(threads, RefList::new());
        "unordered:mutex", "std::sync::Mutex<VecDeque>, searched from the front",
            |threads| Coming::boxed(threads, Mutexed::<VecDeque<(u64, u64)>>::default());
        "two-lists:list-cache", "nonblocking::ListCache, each descriptor on two lists",
            |threads| Coming::boxed(threads, listed(threads));
        "two-lists:mutex", "std::sync::Mutex<[VecDeque; 2]>, each key in both",
            |threads| Coming::boxed(threads, Mutexed::<[VecDeque<(u64, u64)>; 2]>::default());
    },
    peers: &["harris-michael", "crossbeam-skip", "mutex"],
    method: Method::Timed,
    threads: Threads::Crowded,
    beside: None,
};

// Nothing here removes entries for change, which is all that could be in the way.
impl Ordered for List<u64, u64> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.try_insert(key, value).is_ok()
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        Self::remove(self, &key).ok().flatten()
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        Self::get(self, &key).ok().flatten()
    }
}

// The newest key is at the front.
impl Ordered for RefList<(u64, u64)> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.push_front((key, value)).is_ok()
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        let entry = self.find(|entry| entry.0 == key)?;
        Self::remove(self, &entry).then_some(entry.1)
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.find(|entry| entry.0 == key).map(|entry| entry.1)
    }
}

descriptor! {
    struct Entry {
        key: AtomicU64,
        value: AtomicU64,
    }
}

impl Entry {
    // Relaxed, here and below: lists publish the contents.
    #[inline(always)]
    fn is(&self, key: u64) -> bool {
        self.key.load(Ordering::Relaxed) == key
    }
}

/// What writes back: nothing, because the cache has room for all keys.
type Owner = fn(&Member<Entry, 2>);

/// A cache with one list of each link, and room for each thread's keys.
fn listed(threads: usize) -> ListCache<Entry, Owner, 2> {
    let owner: Owner = |_| ();
    ListCache::try_new(threads * KEYS, [1, 1], owner).expect("memory for a few descriptors")
}

impl Ordered for ListCache<Entry, Owner, 2> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        let Ok(entry) = self.load() else {
            return false;
        };
        entry.key.store(key, Ordering::Relaxed);
        entry.value.store(value, Ordering::Relaxed);
        self.list(0, 0).push_front(&entry) && self.list(1, 0).push_front(&entry)
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        let mut entry = self.list(0, 0).find(|entry| entry.is(key))?;
        let value = entry.value.load(Ordering::Relaxed);
        let is_on_both = [0, 1].map(|link| Self::remove(self, link, &entry)) == [true; 2];
        // A neighbour that has found it may still use it.
        while let Err(again) = entry.unload() {
            entry = again;
            std::thread::yield_now();
        }
        is_on_both.then_some(value)
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        let entry = self.list(0, 0).find(|entry| entry.is(key))?;
        Some(entry.value.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::super::all_is_accounted_for;
    use super::*;

    #[test]
    fn every_list_keeps_every_key() {
        all_is_accounted_for(&EXPERIMENT, |_| true);
    }
}
