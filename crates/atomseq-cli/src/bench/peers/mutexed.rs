//! Everything behind the standard library's mutex (a futex word), padded as its users would.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::workloads::counting::Count;
use crate::bench::workloads::exchange::Container;
use crate::bench::workloads::flow::Conveyor;
use crate::bench::workloads::ordered::Ordered;

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
    fn remove(&self, key: u64) -> Option<u64> {
        self.lock().remove(&key)
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        self.lock().get(&key).copied()
    }
}

/// A container behind a mutex that takes no more elements than it has room for.
pub struct Limited<T> {
    container: Mutexed<T>,
    room: usize,
}

impl<T> Limited<T> {
    /// Limits a container to that many elements.
    pub fn new(container: Mutexed<T>, room: usize) -> Self {
        Self { container, room }
    }
}

impl Conveyor for Limited<Vec<u64>> {
    #[inline(always)]
    fn push(&self, number: u64) -> Result<(), u64> {
        let mut vector = self.container.lock();
        if vector.len() == self.room {
            return Err(number);
        }
        vector.push(number);
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.container.lock().pop()
    }
}

impl Conveyor for Limited<VecDeque<u64>> {
    #[inline(always)]
    fn push(&self, number: u64) -> Result<(), u64> {
        let mut deque = self.container.lock();
        if deque.len() == self.room {
            return Err(number);
        }
        deque.push_back(number);
        Ok(())
    }

    #[inline(always)]
    fn pop(&self) -> Option<u64> {
        self.container.lock().pop_front()
    }
}
