//! `nonblocking::HashMap` and `RefHashMap`, with the model of keys: few keys, all of which lie in
//! one bucket at first, and calls that split and merge buckets.

use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use atomseq::nonblocking::{HashMap, RefHashMap, Refused, Step};
use fastrand::Rng;

use super::keys::{Answer, Call, KEYS, Keys};
use crate::record::Subject;
use crate::structures::Element;

/// Hashes the keys so that they begin in bucket 0, and the first splits separate them.
#[derive(Default)]
pub struct Together(u64);

impl Hasher for Together {
    fn finish(&self) -> u64 {
        // The map spreads what a hasher returns: searches one that it spreads to the wanted bits.
        let is_wanted = |hash: &u64| {
            let product = u128::from(*hash) * 0x9e37_79b9_7f4a_7c15;
            (product as u64 ^ (product >> 64) as u64) % 256 == self.0 * 8 % 256
        };
        (self.0 << 32..).find(is_wanted).expect("one in 256")
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A map, and whether its splits check the version.
pub struct Hashed<const CHECKED: bool>(HashMap<u64, u64, BuildHasherDefault<Together>>);

/// More buckets than this are not made.
const BUCKETS: usize = 20;

fn choose(rng: &mut Rng, value: u64) -> Call {
    let key = rng.u64(..KEYS as u64);
    match rng.u32(..16) {
        0 | 1 => Call::Insert(key, value),
        2 | 3 => Call::Put(key, value),
        4 => Call::Replace(key, value),
        5..8 => Call::Find(key),
        8..10 => Call::Delete(key),
        10..14 => Call::Grow,
        _ => Call::Shrink,
    }
}

/// Returns all entries, in order. A key that is there twice may make them too many to be listed:
/// the model has no such answer.
fn entries(entries: impl Iterator<Item = (u64, u64)>) -> Answer {
    let mut all = [(0, 0); KEYS];
    let mut there = Vec::from_iter(entries);
    there.sort_unstable();
    let listed = there.len().min(KEYS);
    all[..listed].copy_from_slice(&there[..listed]);
    Answer::Entries((all, there.len()))
}

impl<const CHECKED: bool> Hashed<CHECKED> {
    /// Makes an empty one.
    pub fn fresh() -> (Hashed<CHECKED>, Keys) {
        (Hashed(HashMap::default()), Keys::default())
    }

    fn grow(&self) {
        let on = |_: Step| true;
        match CHECKED {
            _ if self.0.buckets() >= BUCKETS => {}
            true => _ = self.0.split_between(on),
            false => _ = self.0.split_unchecked(on),
        }
    }
}

impl<const CHECKED: bool> Subject for Hashed<CHECKED> {
    type Model = Keys;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        Some(choose(rng, value))
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        let map = &self.0;
        match *call {
            Call::Insert(key, value) => match map.try_insert(key, value) {
                Ok(()) => Answer::Done,
                Err(Refused::Present) => Answer::Present,
                Err(refused) => panic!("{refused}"),
            },
            Call::Put(key, value) => Answer::Value(map.insert(key, value).expect("memory")),
            Call::Replace(key, value) => {
                Answer::Value(map.update(&key, |_| value).expect("memory"))
            }
            Call::Find(key) => Answer::Value(map.get(&key)),
            Call::Delete(key) => Answer::Value(map.remove(&key)),
            Call::Grow => {
                self.grow();
                Answer::Done
            }
            Call::Shrink => {
                map.merge_between(|_| true);
                Answer::Done
            }
            _ => entries(map.iter()),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        before.is_none().then_some(Call::Entries)
    }
}

/// A map of counted values.
pub struct Lent<E: Element>(RefHashMap<u64, E, BuildHasherDefault<Together>>);

impl<E: Element> Lent<E> {
    /// Makes an empty one.
    pub fn fresh() -> (Lent<E>, Keys) {
        (Lent(RefHashMap::default()), Keys::default())
    }
}

impl<E: Element> Subject for Lent<E> {
    type Model = Keys;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        Some(match choose(rng, value) {
            // It has no such operation.
            Call::Replace(key, _) => Call::Find(key),
            call => call,
        })
    }

    fn operate(&self, call: &Call, (): &mut ()) -> Answer {
        let map = &self.0;
        match *call {
            Call::Insert(key, value) => match map.try_insert(key, E::of(value)) {
                Ok(()) => Answer::Done,
                Err(refused) if refused.reason == Refused::Present => Answer::Present,
                Err(refused) => panic!("{refused}"),
            },
            Call::Put(key, value) => {
                let old = map.insert(key, E::of(value)).expect("memory");
                Answer::Value(old.map(|old| old.number()))
            }
            Call::Find(key) => {
                let found = map.get(&key);
                Answer::Value(found.map(|found| found.number()))
            }
            Call::Delete(key) => Answer::Value(map.remove(&key).map(|removed| removed.number())),
            Call::Grow => {
                _ = map.buckets() < BUCKETS && map.split_between(|_| true);
                Answer::Done
            }
            Call::Shrink => {
                map.merge_between(|_| true);
                Answer::Done
            }
            _ => entries(map.iter().map(|(key, value)| (key, value.number()))),
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        before.is_none().then_some(Call::Entries)
    }

    fn recover(&self) -> usize {
        let time = Duration::from_millis(1);
        let audit = || {
            std::thread::sleep(2 * time);
            // SAFETY: no other thread that continues is in an operation, and none has a guard. Here
            // is the only audit.
            unsafe { self.0.audit(time) }.unclaimed
        };
        // The second one recovers what an exited thread held, and the third one the guard of a
        // removal that it has noted.
        let recovered = (0..3).map(|_| audit()).sum();
        assert_eq!(self.0.nodes(), self.0.iter().count(), "not recovered");
        recovered
    }
}
