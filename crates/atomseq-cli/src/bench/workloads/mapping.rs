//! The workloads of maps that all threads share: lookups with a few changes, keys that come and go,
//! and maps that grow from nothing.
//!
//! Each thread alone changes its keys. A key's value counts how often it came back: in the end
//! every key must be there, with as many as were counted.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use super::ordered::{Ordered, all_came_back};
use crate::bench::engine::{GRAIN, Subject};
use crate::bench::fault::Fault;
use crate::error::Refused;

/// How many keys a thread has.
pub const KEYS: u64 = 8_192;

/// How many keys a map that grows gets before the thread begins with a new one.
const GROWN: u64 = 32_768;

/// A map that all threads share, under one of the workloads that keep the number of keys.
pub struct Shared<M, const LOOKUPS: u64> {
    map: M,
    threads: Vec<CachePadded<Mutex<Thread>>>,
}

struct Thread {
    rng: Rng,
    /// How often the thread has inserted a key again.
    counted: u64,
}

/// 90 lookups of any key, and 5 removals and 5 insertions of the thread's own, a hundred.
pub fn get90<M: Ordered + 'static>(threads: usize, map: M) -> Box<dyn Subject> {
    Shared::<M, 18>::boxed(threads, map)
}

/// A removal and an insertion of one of the thread's own keys in turns.
pub fn churn<M: Ordered + 'static>(threads: usize, map: M) -> Box<dyn Subject> {
    Shared::<M, 0>::boxed(threads, map)
}

impl<M: Ordered + 'static, const LOOKUPS: u64> Shared<M, LOOKUPS> {
    fn boxed(threads: usize, map: M) -> Box<dyn Subject> {
        let thread = |index| {
            CachePadded::new(Mutex::new(Thread {
                rng: Rng::with_seed(index),
                counted: 0,
            }))
        };
        let threads = (0..threads as u64).map(thread).collect();
        Box::new(Self { map, threads })
    }

    fn key(&self, thread: usize, index: u64) -> u64 {
        index * self.threads.len() as u64 + thread as u64
    }

    fn keys(&self) -> u64 {
        KEYS * self.threads.len() as u64
    }
}

impl<M: Ordered + 'static, const LOOKUPS: u64> Subject for Shared<M, LOOKUPS> {
    fn prepare(&self, thread: usize) -> Result<(), Refused> {
        for index in 0..KEYS {
            assert!(self.map.insert(self.key(thread, index), 0), "{NO_MEMORY}");
        }
        Ok(())
    }

    /// An operation is a round of lookups, a removal and an insertion; [`get90`] has 20 map
    /// operations a round, and [`churn`] 2.
    fn run(&self, thread: usize, operations: u64) {
        let mut own = self.threads[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let own = &mut *own;
        let keys = self.keys();
        for _ in 0..operations {
            for _ in 0..LOOKUPS {
                black_box(self.map.get(own.rng.u64(..keys)));
            }
            let key = self.key(thread, own.rng.u64(..KEYS));
            let value = self
                .map
                .remove(key)
                .expect("only this thread removes this key");
            assert!(self.map.insert(key, value + 1), "{NO_MEMORY}");
        }
        own.counted += operations;
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        all_came_back(&self.map, self.keys(), operations)
    }
}

/// Maps that grow: each thread fills one of its own, from new to its drop.
pub struct Growing<M> {
    make: fn() -> M,
    threads: Vec<CachePadded<Mutex<Grown<M>>>>,
}

struct Grown<M> {
    map: M,
    /// How many keys this map has, and how many all have had.
    keys: u64,
    all: u64,
    /// Keys that were not there after they were inserted.
    missing: u64,
}

impl<M: Ordered + Send + 'static> Growing<M> {
    /// The subject for that many threads.
    pub fn boxed(threads: usize, make: fn() -> M) -> Box<dyn Subject> {
        let grown = || {
            CachePadded::new(Mutex::new(Grown {
                map: make(),
                keys: 0,
                all: 0,
                missing: 0,
            }))
        };
        let threads = (0..threads).map(|_| grown()).collect();
        Box::new(Self { make, threads })
    }
}

impl<M: Ordered + Send + 'static> Subject for Growing<M> {
    fn run(&self, thread: usize, operations: u64) {
        const { assert!(GROWN.is_multiple_of(GRAIN)) };
        let mut grown = self.threads[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let grown = &mut *grown;
        for _ in 0..operations / GRAIN {
            if grown.keys == GROWN {
                grown.map = (self.make)();
                grown.keys = 0;
            }
            for _ in 0..GRAIN {
                assert!(grown.map.insert(grown.keys, grown.keys), "{NO_MEMORY}");
                grown.keys += 1;
            }
            let is_there = grown.map.get(grown.keys / 2) == Some(grown.keys / 2);
            grown.missing += u64::from(!is_there);
        }
        grown.all += operations;
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let mut all = 0;
        for grown in &self.threads {
            let grown = grown.lock().unwrap_or_else(PoisonError::into_inner);
            let there = (0..grown.keys).filter(|key| grown.map.get(*key) == Some(*key));
            let missing = grown.keys - there.count() as u64 + grown.missing;
            all += grown.all - missing.min(grown.all);
        }
        if all == operations {
            return Ok(());
        }
        let sentence = format!("{all} of {operations} keys were there");
        Err(Fault::count(operations, [all], sentence))
    }
}

const NO_MEMORY: &str = "there is no memory for a key";

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::bench::peers::mutexed::Mutexed;

    /// Forgets a key when it comes back.
    #[derive(Default)]
    struct Forgetful(Mutexed<HashMap<u64, u64>>);

    impl Ordered for Forgetful {
        fn insert(&self, key: u64, value: u64) -> bool {
            value == 1 || self.0.insert(key, value)
        }

        fn remove(&self, key: u64) -> Option<u64> {
            self.0.remove(key)
        }

        fn get(&self, key: u64) -> Option<u64> {
            self.0.get(key)
        }
    }

    fn judge(case: &dyn Subject, rounds: u64) -> Result<(), String> {
        case.prepare(0).unwrap();
        case.run(0, rounds);
        case.check(rounds).map_err(|fault| fault.sentence)
    }

    #[test]
    fn the_checks_tell_a_whole_map_from_a_forgetful_one() {
        let whole = Mutexed::<HashMap<u64, u64>>::default;
        assert_eq!(judge(&*get90(1, whole()), GRAIN), Ok(()));
        assert_eq!(judge(&*churn(1, whole()), GRAIN), Ok(()));
        assert_eq!(judge(&*Growing::boxed(1, whole), 3 * GROWN), Ok(()));
        let forgetful = churn(1, Forgetful::default());
        let fault = judge(&*forgetful, 1).unwrap_err();
        assert_eq!(fault, "1 of 8192 keys are missing");
        let fault = judge(&*Growing::boxed(1, Forgetful::default), GRAIN).unwrap_err();
        assert_eq!(fault, "63 of 64 keys were there");
    }
}
