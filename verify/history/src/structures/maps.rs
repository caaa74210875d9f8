//! `nonblocking::HashMap`, with the model of keys: few keys, all of which lie in one bucket at
//! first, and calls that split and merge buckets.

use std::hash::{BuildHasherDefault, Hasher};

use atomseq::nonblocking::{HashMap, Refused, Step};
use fastrand::Rng;

use super::keys::{Answer, Call, KEYS, Keys};
use crate::record::Subject;

/// Hashes the keys so that they begin in bucket 0, and the first splits separate them.
#[derive(Default)]
pub struct Together(u64);

/// What the map multiplies a hash by, before it adds the upper half to the lower one.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Together {
    fn finish(&self) -> u64 {
        // Undoes what the map does.
        let wanted = self.0 * 8;
        let product = wanted ^ wanted >> 32;
        let inverse = (0..6).fold(1_u64, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(inverse)))
        });
        product.wrapping_mul(inverse)
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

impl<const CHECKED: bool> Hashed<CHECKED> {
    /// Makes an empty one.
    pub fn fresh() -> (Hashed<CHECKED>, Keys) {
        (Hashed(HashMap::default()), Keys::default())
    }

    fn resize(&self, grows: bool) {
        let on = |_: Step| true;
        match grows {
            true if self.0.buckets() >= BUCKETS => {}
            true if CHECKED => _ = self.0.split_between(on),
            true => _ = self.0.split_unchecked(on),
            false => _ = self.0.merge_between(on),
        }
    }
}

impl<const CHECKED: bool> Subject for Hashed<CHECKED> {
    type Model = Keys;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<Call> {
        let key = rng.u64(..KEYS as u64);
        Some(match rng.u32(..16) {
            0 | 1 => Call::Insert(key, value),
            2 | 3 => Call::Put(key, value),
            4 => Call::Replace(key, value),
            5..8 => Call::Find(key),
            8..10 => Call::Delete(key),
            10..14 => Call::Resize(true),
            _ => Call::Resize(false),
        })
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
            Call::Resize(grows) => {
                self.resize(grows);
                Answer::Done
            }
            _ => {
                let mut entries = [(0, 0); KEYS];
                let mut there = Vec::from_iter(map);
                there.sort_unstable();
                assert!(there.len() <= KEYS, "a key is there twice: {there:?}");
                entries[..there.len()].copy_from_slice(&there);
                Answer::Entries((entries, there.len()))
            }
        }
    }

    fn last(&self, before: Option<&Answer>) -> Option<Call> {
        before.is_none().then_some(Call::Entries)
    }
}
