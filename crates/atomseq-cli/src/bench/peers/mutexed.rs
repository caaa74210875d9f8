//! Everything behind the standard library's mutex (a futex word), padded as its users would.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::exchange::Container;
use crate::bench::experiments::Count;
use crate::bench::ordered::Ordered;

/// A value behind a mutex.
#[derive(Default)]
pub struct Mutexed<T>(CachePadded<Mutex<T>>);

impl<T> Mutexed<T> {
    /// Puts a value behind a mutex.
    pub fn new(value: T) -> Self {
        Self(CachePadded::new(Mutex::new(value)))
    }

    #[inline(always)]
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Count for Mutexed<u64> {
    #[inline(always)]
    fn add(&self, amount: u64) {
        *self.lock() += amount;
    }

    fn sum(&self) -> u64 {
        *self.lock()
    }
}

impl Container for Mutexed<Vec<u64>> {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        self.lock().push(element);
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.lock().pop()
    }
}

impl Container for Mutexed<VecDeque<u64>> {
    #[inline(always)]
    unsafe fn push(&self, element: u64) -> Result<(), u64> {
        self.lock().push_back(element);
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.lock().pop_front()
    }
}

impl Ordered for Mutexed<BTreeMap<u64, u64>> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.lock().insert(key, value);
        true
    }

    #[inline(always)]
    fn delete(&self, key: u64) -> Option<u64> {
        self.lock().remove(&key)
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<u64> {
        self.lock().get(&key).copied()
    }
}
