//! The maps, the priority queue and the lists of a cache against collections of std, under random
//! sequences of operations of one thread. proptest reduces a sequence after which they differ.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{
    Handle, HashMap, ListCache, Member, PageMap, PriorityQueue, RefHashMap,
};
use atomseq::type_stable::descriptor;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const MECHANISMS: [Mechanism; 2] = [Mechanism::Assisted, Mechanism::Kcas];

/// Runs `trial` with many sequences. Returns the shortest one that fails, with the reason.
fn difference<S: Strategy>(
    operations: S,
    trial: impl Fn(&[S::Value]) -> Result<(), TestCaseError>,
) -> Option<String>
where
    S::Value: Clone,
{
    let config = Config {
        cases: if cfg!(debug_assertions) { 64 } else { 512 },
        // The seed of a failure is in its message; no file is written.
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&vec(operations, 0..400), |all| trial(&all));
    outcome.err().map(|error| error.to_string())
}

fn agree<S: Strategy>(operations: S, trial: impl Fn(&[S::Value]) -> Result<(), TestCaseError>)
where
    S::Value: Clone,
{
    assert_eq!(difference(operations, trial), None);
}

#[derive(Clone, Copy, Debug)]
enum OnMap {
    Insert(u16, u32),
    TryInsert(u16, u32),
    Remove(u16),
    Get(u16),
    Add(u16, u32),
    Exchange(u16, Option<u32>, Option<u32>),
    Pop,
    Clear,
}

fn on_map() -> impl Strategy<Value = OnMap> {
    // Few values, so that an exchange may succeed.
    let (key, value) = (0..300_u16, 0..3_u32);
    let few = proptest::option::of(value.clone());
    prop_oneof![
        6 => (key.clone(), value.clone()).prop_map(|(key, value)| OnMap::Insert(key, value)),
        3 => (key.clone(), value.clone()).prop_map(|(key, value)| OnMap::TryInsert(key, value)),
        4 => key.clone().prop_map(OnMap::Remove),
        3 => key.clone().prop_map(OnMap::Get),
        1 => (key.clone(), value).prop_map(|(key, value)| OnMap::Add(key, value)),
        2 => (key, few.clone(), few).prop_map(|(key, old, new)| OnMap::Exchange(key, old, new)),
        1 => Just(OnMap::Pop),
        1 => Just(OnMap::Clear),
    ]
}

/// What both maps have, and what one of them has in a form of its own.
trait Map {
    fn insert(&self, key: u16, value: u32) -> Option<u32>;
    fn try_insert(&self, key: u16, value: u32) -> bool;
    fn remove(&self, key: u16) -> Option<u32>;
    fn get(&self, key: u16) -> Option<u32>;
    fn entries(&self) -> Vec<(u16, u32)>;
    fn len(&self) -> usize;

    fn add(&self, key: u16, more: u32) -> Option<u32> {
        let found = self.get(key);
        found.and_then(|found| self.insert(key, found + more))
    }

    fn exchange(&self, key: u16, current: Option<u32>, new: Option<u32>) -> bool {
        let is_current = self.get(key) == current;
        if is_current {
            match new {
                Some(new) => self.insert(key, new),
                None => self.remove(key),
            };
        }
        is_current
    }

    fn pop(&self) -> Option<(u16, u32)> {
        let (key, value) = *self.entries().first()?;
        assert_eq!(self.remove(key), Some(value));
        Some((key, value))
    }

    fn clear(&self) {
        while self.pop().is_some() {}
    }
}

impl<S: BuildHasher> Map for HashMap<u16, u32, S> {
    fn insert(&self, key: u16, value: u32) -> Option<u32> {
        HashMap::insert(self, key, value).unwrap()
    }

    fn try_insert(&self, key: u16, value: u32) -> bool {
        HashMap::try_insert(self, key, value).is_ok()
    }

    fn remove(&self, key: u16) -> Option<u32> {
        HashMap::remove(self, &key)
    }

    fn get(&self, key: u16) -> Option<u32> {
        HashMap::get(self, &key)
    }

    fn entries(&self) -> Vec<(u16, u32)> {
        self.iter().collect()
    }

    fn len(&self) -> usize {
        HashMap::len(self)
    }

    fn add(&self, key: u16, more: u32) -> Option<u32> {
        self.update(&key, |found| found + more).unwrap()
    }

    fn exchange(&self, key: u16, current: Option<u32>, new: Option<u32>) -> bool {
        self.compare_exchange(key, current, new).is_ok()
    }

    fn pop(&self) -> Option<(u16, u32)> {
        HashMap::pop(self)
    }

    fn clear(&self) {
        HashMap::clear(self);
    }
}

impl<S: BuildHasher> Map for RefHashMap<u16, Box<u32>, S> {
    fn insert(&self, key: u16, value: u32) -> Option<u32> {
        let old = RefHashMap::insert(self, key, Box::new(value)).unwrap();
        old.map(|old| *old.into_inner().unwrap())
    }

    fn try_insert(&self, key: u16, value: u32) -> bool {
        RefHashMap::try_insert(self, key, Box::new(value)).is_ok()
    }

    fn remove(&self, key: u16) -> Option<u32> {
        RefHashMap::remove(self, &key).map(|removed| **removed)
    }

    fn get(&self, key: u16) -> Option<u32> {
        RefHashMap::get(self, &key).map(|found| **found)
    }

    fn entries(&self) -> Vec<(u16, u32)> {
        self.iter().map(|(key, value)| (key, **value)).collect()
    }

    fn len(&self) -> usize {
        RefHashMap::len(self)
    }
}

/// Hashes all keys to few hashes, so that buckets overflow.
#[derive(Default)]
struct Few(u64);

impl Hasher for Few {
    fn finish(&self) -> u64 {
        self.0 % 5
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |sum, byte| sum + u64::from(*byte));
    }
}

type Colliding = BuildHasherDefault<Few>;

fn map_agrees(map: impl Map, operations: &[OnMap]) -> Result<(), TestCaseError> {
    let mut std = std::collections::HashMap::new();
    for operation in operations {
        match *operation {
            OnMap::Insert(key, value) => {
                prop_assert_eq!(map.insert(key, value), std.insert(key, value));
            }
            OnMap::TryInsert(key, value) => {
                prop_assert_eq!(map.try_insert(key, value), !std.contains_key(&key));
                std.entry(key).or_insert(value);
            }
            OnMap::Remove(key) => prop_assert_eq!(map.remove(key), std.remove(&key)),
            OnMap::Get(key) => prop_assert_eq!(map.get(key), std.get(&key).copied()),
            OnMap::Add(key, more) => {
                prop_assert_eq!(map.add(key, more), std.get(&key).copied());
                std.entry(key).and_modify(|value| *value += more);
            }
            OnMap::Exchange(key, current, new) => {
                let is_current = std.get(&key).copied() == current;
                prop_assert_eq!(map.exchange(key, current, new), is_current);
                if is_current {
                    std.remove(&key);
                    std.extend(new.map(|new| (key, new)));
                }
            }
            OnMap::Pop => match map.pop() {
                Some((key, value)) => prop_assert_eq!(std.remove(&key), Some(value)),
                None => prop_assert!(std.is_empty()),
            },
            OnMap::Clear => {
                map.clear();
                std.clear();
            }
        }
        prop_assert_eq!(map.len(), std.len());
    }
    let entries = map.entries();
    prop_assert_eq!(entries.len(), std.len());
    prop_assert_eq!(BTreeMap::from_iter(entries), BTreeMap::from_iter(std));
    Ok(())
}

#[test]
fn hash_maps() {
    agree(on_map(), |all| map_agrees(HashMap::<u16, u32>::new(), all));
    agree(on_map(), |all| {
        map_agrees(HashMap::with_hasher(Colliding::default()), all)
    });
    agree(on_map(), |all| {
        map_agrees(RefHashMap::<u16, Box<u32>>::new(), all)
    });
    agree(on_map(), |all| {
        map_agrees(RefHashMap::with_hasher(Colliding::default()), all)
    });
}

/// Forgets an insertion of one key after many.
struct Forgetful(HashMap<u16, u32>, std::cell::Cell<usize>);

impl Map for Forgetful {
    fn insert(&self, key: u16, value: u32) -> Option<u32> {
        self.1.set(self.1.get() + 1);
        match self.1.get() {
            40 => self.get(key),
            _ => Map::insert(&self.0, key, value),
        }
    }

    fn try_insert(&self, key: u16, value: u32) -> bool {
        Map::try_insert(&self.0, key, value)
    }

    fn remove(&self, key: u16) -> Option<u32> {
        Map::remove(&self.0, key)
    }

    fn get(&self, key: u16) -> Option<u32> {
        Map::get(&self.0, key)
    }

    fn entries(&self) -> Vec<(u16, u32)> {
        self.0.entries()
    }

    fn len(&self) -> usize {
        Map::len(&self.0)
    }
}

/// The control: a map that forgets one insertion differs.
#[test]
fn a_forgetful_map_is_found() {
    let found = difference(on_map(), |all| {
        map_agrees(Forgetful(HashMap::new(), Default::default()), all)
    });
    assert!(found.is_some());
}

#[derive(Clone, Copy, Debug)]
enum OnQueue {
    Insert(u8),
    Pop,
    PopDue(u8),
    Peek,
    /// Of the handle of this number, modulo the number of handles.
    Remove(u16),
    Change(u16, u8),
    Look(u16),
}

fn on_queue() -> impl Strategy<Value = OnQueue> {
    let (handle, priority) = (any::<u16>(), 0..40_u8);
    prop_oneof![
        8 => priority.clone().prop_map(OnQueue::Insert),
        3 => Just(OnQueue::Pop),
        1 => priority.clone().prop_map(OnQueue::PopDue),
        1 => Just(OnQueue::Peek),
        1 => handle.prop_map(OnQueue::Remove),
        2 => (handle, priority).prop_map(|(handle, to)| OnQueue::Change(handle, to)),
        1 => handle.prop_map(OnQueue::Look),
    ]
}

/// The entries of `std` have the number of the operation that inserted them in their keys, or that
/// gave them another priority. So entries of equal priority leave in that order. `changes` is a
/// fault.
fn queue_agrees(
    mechanism: Mechanism,
    operations: &[OnQueue],
    changes: bool,
) -> Result<(), TestCaseError> {
    let queue = PriorityQueue::forced(mechanism);
    let mut std = BTreeMap::new();
    // All handles there were, with the key of their entry.
    let mut handles: Vec<(Handle, (u8, usize))> = Vec::new();
    let plain = |entry: Option<(u8, Box<usize>)>| entry.map(|(priority, value)| (priority, *value));
    for (number, operation) in operations.iter().enumerate() {
        let choose = |which: u16| {
            let count = handles.len().max(1);
            handles.get(usize::from(which) % count).copied()
        };
        match *operation {
            OnQueue::Insert(priority) => {
                let fault = u8::from(changes && number > 20);
                let handle = queue.insert(priority ^ fault, Box::new(number)).unwrap();
                std.insert((priority, number), number);
                handles.push((handle, (priority, number)));
            }
            OnQueue::Pop => {
                let first = std.pop_first();
                let first = first.map(|((priority, _), value)| (priority, value));
                prop_assert_eq!(plain(queue.pop()), first);
            }
            OnQueue::PopDue(now) => {
                let first = std.first_entry().filter(|first| first.key().0 <= now);
                let due = first.map(|first| (first.key().0, first.remove()));
                prop_assert_eq!(plain(queue.pop_due(now)), due);
            }
            OnQueue::Peek => {
                let first = std.first_key_value();
                prop_assert_eq!(queue.peek(), first.map(|((priority, _), _)| *priority));
            }
            OnQueue::Remove(which) => {
                if let Some((handle, key)) = choose(which) {
                    let there = std.remove(&key).map(|value| (key.0, value));
                    prop_assert_eq!(plain(queue.remove(handle)), there);
                }
            }
            OnQueue::Change(which, to) => {
                if let Some((handle, key)) = choose(which) {
                    let changed = queue.change_priority(handle, to);
                    let there = std.remove(&key);
                    prop_assert_eq!(changed.is_some(), there.is_some());
                    handles.extend(changed.map(|handle| (handle, (to, number))));
                    std.extend(there.map(|value| ((to, number), value)));
                }
            }
            OnQueue::Look(which) => {
                if let Some((handle, key)) = choose(which) {
                    let there = std.contains_key(&key).then_some(key.0);
                    prop_assert_eq!(queue.priority(handle), there);
                }
            }
        }
    }
    prop_assert_eq!(queue.len(), std.len());
    let left = queue.drain().map(|entry| plain(Some(entry)));
    let right = std
        .into_iter()
        .map(|((priority, _), value)| Some((priority, value)));
    prop_assert_eq!(Vec::from_iter(left), Vec::from_iter(right));
    Ok(())
}

#[test]
fn priority_queues() {
    for mechanism in MECHANISMS {
        agree(on_queue(), |all| queue_agrees(mechanism, all, false));
        // The control: priorities are changed on the way.
        let found = difference(on_queue(), |all| queue_agrees(mechanism, all, true));
        assert!(found.is_some());
    }
}

#[derive(Clone, Copy, Debug)]
enum OnPages {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    Get(u64),
    Snapshot(u64),
    Unload(u64),
    UnloadSubtree(u64),
}

/// A few pages of a few leaves of a few children, some of them beyond 32-bit addresses.
fn page() -> impl Strategy<Value = u64> {
    let far = prop_oneof![4 => Just(0), 1 => Just(1 << 19), 1 => Just(1 << 20), 1 => Just(1 << 35)];
    (far, 0..3_u64, 0..3_u64, 0..6_u64)
        .prop_map(|(far, child, table, page)| far + child * 8192 + table * 64 + page * 11)
}

fn on_pages() -> impl Strategy<Value = OnPages> {
    prop_oneof![
        8 => (page(), any::<u64>()).prop_map(|(page, value)| OnPages::Insert(page, value)),
        2 => (page(), any::<u64>()).prop_map(|(page, value)| OnPages::Update(page, value)),
        3 => page().prop_map(OnPages::Remove),
        3 => page().prop_map(OnPages::Get),
        1 => page().prop_map(OnPages::Snapshot),
        1 => page().prop_map(OnPages::Unload),
        1 => page().prop_map(OnPages::UnloadSubtree),
    ]
}

/// `misses` is a fault: a subtree whose last page is not written back.
fn pages_agree<const BITS: u32>(
    map: PageMap<u64, BITS>,
    operations: &[OnPages],
    misses: bool,
) -> Result<(), TestCaseError> {
    let mut std = BTreeMap::new();
    let first = |page: u64, size: u64| page & !(size - 1);
    for operation in operations {
        match *operation {
            OnPages::Insert(page, value) => match map.insert(page, value) {
                Ok(old) => prop_assert_eq!(old, std.insert(page, value)),
                Err(_) => prop_assert!(page >= PageMap::<u64, BITS>::PAGES),
            },
            OnPages::Update(page, more) => {
                let old = map.update(page, |value| value ^ more);
                prop_assert_eq!(old, std.get(&page).copied());
                std.entry(page).and_modify(|value| *value ^= more);
            }
            OnPages::Remove(page) => prop_assert_eq!(map.remove(page), std.remove(&page)),
            OnPages::Get(page) => prop_assert_eq!(map.get(page), std.get(&page).copied()),
            OnPages::Snapshot(page) => {
                for (entry, page) in map.snapshot(page).into_iter().zip(first(page, 64)..) {
                    prop_assert_eq!(entry, std.get(&page).copied());
                }
            }
            OnPages::Unload(page) | OnPages::UnloadSubtree(page) => {
                let mut written = Vec::new();
                let note = |page, value| written.push((page, value));
                let (count, size) = match operation {
                    OnPages::Unload(_) => (map.unload(page, note), 64),
                    _ => (map.unload_subtree(page, note), 8192),
                };
                prop_assert_eq!(count, written.len());
                if misses && size > 64 {
                    written.pop();
                }
                let range = first(page, size)..first(page, size) + size;
                let taken: Vec<_> = std
                    .range(range)
                    .map(|(page, value)| (*page, *value))
                    .collect();
                taken.iter().for_each(|(page, _)| _ = std.remove(page));
                prop_assert_eq!(written, taken);
            }
        }
    }
    Ok(())
}

#[test]
fn page_maps() {
    for mechanism in MECHANISMS {
        agree(on_pages(), |all| {
            pages_agree(PageMap::forced(mechanism), all, false)
        });
        agree(on_pages(), |all| {
            pages_agree(PageMap::wide_forced(mechanism), all, false)
        });
        // The control.
        let found = difference(on_pages(), |all| {
            pages_agree(PageMap::forced(mechanism), all, true)
        });
        assert!(found.is_some());
    }
}

/// An operation on three lists of a cache. The first two share a link.
#[derive(Clone, Copy, Debug)]
enum OnLists {
    Load(usize),
    LoadInOrder(usize),
    Join(usize, usize),
    Pop(usize),
    Remove(usize),
    Unload(usize),
    WriteBack,
}

fn on_lists() -> impl Strategy<Value = OnLists> {
    let list = 0..3_usize;
    prop_oneof![
        4 => list.clone().prop_map(OnLists::Load),
        2 => list.clone().prop_map(OnLists::LoadInOrder),
        4 => (list.clone(), list.clone()).prop_map(|(from, to)| OnLists::Join(from, to)),
        2 => list.clone().prop_map(OnLists::Pop),
        2 => list.clone().prop_map(OnLists::Remove),
        1 => list.prop_map(OnLists::Unload),
        1 => Just(OnLists::WriteBack),
    ]
}

descriptor! {
    struct Numbered {
        number: AtomicU64,
    }
}

/// Compares the lists of a cache of eight descriptors with vectors. `forget` may differ from what
/// the cache does when it writes a descriptor back.
fn lists_agree(
    mechanism: Mechanism,
    operations: &[OnLists],
    forget: impl Fn(&mut [Vec<u64>; 3], u64),
) -> Result<(), TestCaseError> {
    let written = Mutex::new(Vec::new());
    let owner = |victim: &Member<Numbered, 2>| {
        written
            .lock()
            .unwrap()
            .push(victim.number.load(Ordering::SeqCst));
    };
    let cache = ListCache::forced(8, [2, 1], owner, mechanism).unwrap();
    let mut model: [Vec<u64>; 3] = Default::default();
    let list = |number: usize| cache.list(number / 2, number % 2);
    let find = |from: usize, sought: Option<&u64>| {
        let sought = *sought?;
        list(from).find(|it| it.number.load(Ordering::SeqCst) == sought)
    };
    for (number, operation) in (1..).zip(operations) {
        let load = || {
            let new = cache.load().unwrap();
            new.number.store(number, Ordering::SeqCst);
            new
        };
        let forget_written = |model: &mut _| {
            for victim in written.lock().unwrap().drain(..) {
                forget(model, victim);
            }
        };
        match *operation {
            OnLists::Load(to) => {
                prop_assert!(list(to).push_front(&load()));
                forget_written(&mut model);
                model[to].insert(0, number);
            }
            OnLists::LoadInOrder(to) => {
                let is_behind = |it: &Numbered| it.number.load(Ordering::SeqCst) % 4 > number % 4;
                prop_assert!(list(to).insert_before(&load(), is_behind));
                forget_written(&mut model);
                let place = model[to].iter().position(|it| it % 4 > number % 4);
                let place = place.unwrap_or(model[to].len());
                model[to].insert(place, number);
            }
            OnLists::Join(from, to) => {
                let found = find(from, model[from].last());
                prop_assert_eq!(found.is_some(), !model[from].is_empty());
                if let Some(found) = found {
                    let last = *model[from].last().unwrap();
                    let of_link =
                        |other: usize| other / 2 == to / 2 && model[other].contains(&last);
                    let is_free = !(0..3).any(of_link);
                    prop_assert_eq!(list(to).push_back(&found), is_free);
                    is_free.then(|| model[to].push(last));
                }
            }
            OnLists::Pop(from) => {
                let popped = list(from).pop_front();
                let popped = popped.map(|popped| popped.number.load(Ordering::SeqCst));
                let first = (!model[from].is_empty()).then(|| model[from].remove(0));
                prop_assert_eq!(popped, first);
            }
            OnLists::Remove(from) => {
                if let Some(found) = find(from, model[from].last()) {
                    prop_assert!(list(from).remove(&found) && !list(from).remove(&found));
                    model[from].pop();
                }
            }
            OnLists::Unload(from) => {
                if let Some(found) = find(from, model[from].first()) {
                    prop_assert!(found.unload().is_ok());
                    let gone = model[from][0];
                    model
                        .iter_mut()
                        .for_each(|row| row.retain(|it| *it != gone));
                }
            }
            OnLists::WriteBack => {
                cache.write_back();
                forget_written(&mut model);
                prop_assert!(model.iter().all(Vec::is_empty));
            }
        }
        for (number, row) in model.iter().enumerate() {
            let members = list(number).fold(Vec::new(), |mut all, it| {
                all.push(it.number.load(Ordering::SeqCst));
                all
            });
            prop_assert_eq!(&members, row);
            prop_assert_eq!(list(number).is_empty(), row.is_empty());
        }
    }
    Ok(())
}

fn forget_everywhere(model: &mut [Vec<u64>; 3], victim: u64) {
    for row in model {
        row.retain(|it| *it != victim);
    }
}

#[test]
fn lists_of_a_cache_agree_with_vectors() {
    for mechanism in MECHANISMS {
        agree(on_lists(), |all| {
            lists_agree(mechanism, all, forget_everywhere)
        });
    }
}

/// A control: a model in which a descriptor that is written back stays on its lists of one link.
#[test]
fn a_list_that_keeps_what_is_gone_is_noticed() {
    let difference = difference(on_lists(), |all| {
        lists_agree(Mechanism::Kcas, all, |model, victim| {
            forget_everywhere(model, victim);
            model[2].push(victim);
        })
    });
    assert!(difference.is_some(), "it was not noticed");
}
