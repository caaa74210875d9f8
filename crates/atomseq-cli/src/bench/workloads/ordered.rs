//! The workload of ordered lists: a thread deletes one of its keys, inserts it again, and looks for
//! a neighbour's.
//!
//! There are [`KEYS`] keys a thread, each of which one thread alone changes, and their order is
//! such that every thread's are everywhere. A key's value counts how often it came back: in the end
//! every key must be there, with as many as were counted.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::engine::{GRAIN, Subject};
use crate::bench::fault::Fault;
use crate::error::Refused;

/// How many keys a thread has.
pub const KEYS: usize = 16;

/// Something in which keys are found, each with a value.
pub trait Ordered: Sync {
    /// Inserts a key that is not there; false if there is no memory.
    fn insert(&self, key: u64, value: u64) -> bool;

    /// Takes a key out; its value.
    fn remove(&self, key: u64) -> Option<u64>;

    /// A key's value.
    fn get(&self, key: u64) -> Option<u64>;
}

/// A list under this workload.
pub struct Coming<L> {
    list: L,
    /// How often each thread has inserted a key again.
    counted: Vec<CachePadded<Mutex<u64>>>,
}

impl<L: Ordered + 'static> Coming<L> {
    /// The subject for that many threads.
    pub fn boxed(threads: usize, list: L) -> Box<dyn Subject> {
        let counted = (0..threads).map(|_| CachePadded::default()).collect();
        Box::new(Self { list, counted })
    }

    fn key(&self, thread: usize, index: usize) -> u64 {
        (index * self.counted.len() + thread) as u64
    }
}

impl<L: Ordered + 'static> Subject for Coming<L> {
    fn prepare(&self, thread: usize) -> Result<(), Refused> {
        for index in 0..KEYS {
            assert!(self.list.insert(self.key(thread, index), 0), "{NO_MEMORY}");
        }
        Ok(())
    }

    fn run(&self, thread: usize, operations: u64) {
        const { assert!(GRAIN.is_multiple_of(KEYS as u64)) };
        let mut counted = self.counted[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let neighbour = (thread + 1) % self.counted.len();
        for _ in 0..operations / KEYS as u64 {
            for index in 0..KEYS {
                // Not in their order, which would be the best case of a list whose search begins
                // where the last one ended.
                let index = (index * 7) % KEYS;
                let key = self.key(thread, index);
                let value = self
                    .list
                    .remove(key)
                    .expect("only this thread removes this key");
                assert!(self.list.insert(key, value + 1), "{NO_MEMORY}");
                black_box(self.list.get(self.key(neighbour, KEYS - 1 - index)));
            }
        }
        *counted += operations / KEYS as u64 * KEYS as u64;
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let keys = self.counted.len() * KEYS;
        all_came_back(&self.list, keys as u64, operations)
    }
}

/// Checks that all of this many keys are there, and that their values, which count how often each
/// key was inserted again, have the right sum.
pub fn all_came_back(list: &impl Ordered, keys: u64, operations: u64) -> Result<(), Fault> {
    let values: Vec<_> = (0..keys).map(|key| list.get(key)).collect();
    let missing = values.iter().filter(|value| value.is_none()).count() as u64;
    if missing > 0 {
        let sentence = format!("{missing} of {keys} keys are missing");
        return Err(Fault::count(keys, [keys - missing], sentence));
    }
    let came: u64 = values.into_iter().flatten().sum();
    if came == operations {
        return Ok(());
    }
    let sentence =
        format!("keys came back {came} times where they were inserted {operations} times");
    Err(Fault::count(operations, [came], sentence))
}

const NO_MEMORY: &str = "there is no memory for a key";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::peers::mutexed::Mutexed;

    /// Forgets a key, or gives it a value that it never had.
    struct Faulty(Mutexed<BTreeMap<u64, u64>>, Option<u64>, Option<u64>);

    impl Ordered for Faulty {
        fn insert(&self, key: u64, value: u64) -> bool {
            let wrong = u64::from(value == 4 && self.2 == Some(key));
            Some(key) == self.1 && value == 4 || self.0.insert(key, value + wrong)
        }

        fn remove(&self, key: u64) -> Option<u64> {
            self.0.remove(key)
        }

        fn get(&self, key: u64) -> Option<u64> {
            self.0.get(key)
        }
    }

    fn judge(forgets: Option<u64>, mistakes: Option<u64>) -> Result<(), String> {
        let case = Coming::boxed(1, Faulty(Mutexed::default(), forgets, mistakes));
        case.prepare(0).unwrap();
        case.run(0, GRAIN);
        case.check(GRAIN).map_err(|fault| fault.sentence)
    }

    #[test]
    fn the_check_tells_a_whole_list_from_a_forgetful_and_a_mistaken_one() {
        assert_eq!(judge(None, None), Ok(()));
        assert_eq!(
            judge(Some(3), None).unwrap_err(),
            "1 of 16 keys are missing"
        );
        let fault = judge(None, Some(3)).unwrap_err();
        assert_eq!(
            fault,
            "keys came back 65 times where they were inserted 64 times"
        );
    }
}
