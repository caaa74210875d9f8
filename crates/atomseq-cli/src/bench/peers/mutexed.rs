//! Everything behind the standard library's mutex (a futex word), padded as its users would.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::workloads::counting::Count;
use crate::bench::workloads::ordered::Ordered;
use crate::bench::workloads::pending::Pending;
use crate::bench::workloads::push_and_pop;

/// A value behind a mutex.
#[derive(Default)]
pub struct Mutexed<T>(CachePadded<Mutex<T>>);

impl<T> Mutexed<T> {
    /// Puts a value behind a mutex.
    pub fn new(value: T) -> Self {
        Self(CachePadded::new(Mutex::new(value)))
    }

    /// Locks it.
    #[inline(always)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
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

push_and_pop!(Container for Mutexed<Vec<u64>>:
    |it: &Self, element| { it.lock().push(element); Ok(()) },
    |it: &Self| it.lock().pop());

push_and_pop!(Container for Mutexed<VecDeque<u64>>:
    |it: &Self, element| { it.lock().push_back(element); Ok(()) },
    |it: &Self| it.lock().pop_front());

macro_rules! ordered {
    ($($map:ident)*) => {$(
        impl Ordered for Mutexed<$map<u64, u64>> {
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
    )*};
}

ordered!(BTreeMap HashMap);

impl Ordered for Mutexed<VecDeque<(u64, u64)>> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        self.lock().push_front((key, value));
        true
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        take_out(&mut self.lock(), key)
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        value_in(&self.lock(), key)
    }
}

impl Ordered for Mutexed<[VecDeque<(u64, u64)>; 2]> {
    #[inline(always)]
    fn insert(&self, key: u64, value: u64) -> bool {
        let mut both = self.lock();
        both.iter_mut().for_each(|one| one.push_front((key, value)));
        true
    }

    #[inline(always)]
    fn remove(&self, key: u64) -> Option<u64> {
        let mut both = self.lock();
        let [first, second] = both.each_mut().map(|one| take_out(one, key));
        first.filter(|_| first == second)
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        value_in(&self.lock()[0], key)
    }
}

fn place_in(entries: &VecDeque<(u64, u64)>, key: u64) -> Option<usize> {
    entries.iter().position(|entry| entry.0 == key)
}

fn value_in(entries: &VecDeque<(u64, u64)>, key: u64) -> Option<u64> {
    place_in(entries, key).map(|place| entries[place].1)
}

fn take_out(entries: &mut VecDeque<(u64, u64)>, key: u64) -> Option<u64> {
    let place = place_in(entries, key)?;
    entries.remove(place).map(|entry| entry.1)
}

impl Pending for Mutexed<BinaryHeap<Reverse<(u64, u64)>>> {
    #[inline(always)]
    fn insert(&self, time: u64, event: u64) -> bool {
        self.lock().push(Reverse((time, event)));
        true
    }

    #[inline(always)]
    fn pop(&self) -> Option<(u64, u64)> {
        self.lock().pop().map(|Reverse(event)| event)
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

    #[inline(always)]
    fn push_if_room(
        &self,
        number: u64,
        len: impl FnOnce(&T) -> usize,
        push: impl FnOnce(&mut T, u64),
    ) -> Result<(), u64> {
        let mut container = self.container.lock();
        if len(&container) == self.room {
            return Err(number);
        }
        push(&mut container, number);
        Ok(())
    }
}

push_and_pop!(Conveyor for Limited<Vec<u64>>:
    |it: &Self, number| it.push_if_room(number, Vec::len, Vec::push),
    |it: &Self| it.container.lock().pop());

push_and_pop!(Conveyor for Limited<VecDeque<u64>>:
    |it: &Self, number| it.push_if_room(number, VecDeque::len, VecDeque::push_back),
    |it: &Self| it.container.lock().pop_front());
