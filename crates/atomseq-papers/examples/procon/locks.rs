//! The mutexes that may guard the buffer: atomseq's, by mechanism, and those of others.

use std::sync::Condvar as StdCondvar;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, OnceLock};
use std::thread::{self, Thread};

use atomseq::mutex::{Interventions, Mutex, RawMutex, TestAndSet};

use super::buffer::{Buffer, even_if_poisoned};
use super::monitor::{Condition, Lock};

/// The two conditions.
#[derive(Default)]
struct Conditions<C> {
    not_full: C,
    not_empty: C,
}

impl<C> Conditions<C> {
    fn of(&self, condition: Condition) -> &C {
        match condition {
            Condition::NotFull => &self.not_full,
            Condition::NotEmpty => &self.not_empty,
        }
    }
}

/// atomseq's relinquishing mutex, by a mechanism that other CPUs cannot come between.
pub struct Relinquishing<M: TestAndSet> {
    buffer: Mutex<Buffer, M>,
    conditions: Conditions<Parked>,
}

impl<M: TestAndSet + Send + Sync> Lock for Relinquishing<M> {
    type Guard<'a>
        = lock_api::MutexGuard<'a, RawMutex<M>, Buffer>
    where
        M: 'a;

    fn new(buffer: Buffer) -> Self {
        Relinquishing {
            buffer: Mutex::new(buffer),
            conditions: Conditions::default(),
        }
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.buffer.try_lock()
    }

    fn lock(&self) -> Self::Guard<'_> {
        self.buffer.lock()
    }

    fn wait<'a>(&'a self, condition: Condition, mut guard: Self::Guard<'a>) -> Self::Guard<'a> {
        let parked = self.conditions.of(condition);
        parked.announce();
        lock_api::MutexGuard::unlocked(&mut guard, || parked.wait());
        guard
    }

    fn notify(&self, condition: Condition) {
        self.conditions.of(condition).notify();
    }

    fn interventions() -> Interventions {
        M::interventions()
    }
}

/// A condition that one thread waits for, always the same one: it parks.
#[derive(Default)]
struct Parked {
    thread: OnceLock<Thread>,
    waits: AtomicBool,
}

impl Parked {
    /// This thread is about to wait; under the mutex.
    fn announce(&self) {
        self.thread.get_or_init(thread::current);
        // Release: with the thread; pairs with the Acquire in `notify`.
        self.waits.store(true, Ordering::Release);
    }

    fn wait(&self) {
        // Acquire: pairs with the Release of whoever notifies.
        while self.waits.load(Ordering::Acquire) {
            thread::park();
        }
    }

    fn notify(&self) {
        // AcqRel: pairs with both.
        if self.waits.swap(false, Ordering::AcqRel) {
            self.thread.get().into_iter().for_each(Thread::unpark);
        }
    }
}

/// The standard library's.
pub struct Std {
    buffer: StdMutex<Buffer>,
    conditions: Conditions<StdCondvar>,
}

impl Lock for Std {
    type Guard<'a> = StdMutexGuard<'a, Buffer>;

    fn new(buffer: Buffer) -> Std {
        Std {
            buffer: StdMutex::new(buffer),
            conditions: Conditions::default(),
        }
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        match self.buffer.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> Self::Guard<'_> {
        even_if_poisoned(self.buffer.lock())
    }

    fn wait<'a>(&'a self, condition: Condition, guard: Self::Guard<'a>) -> Self::Guard<'a> {
        even_if_poisoned(self.conditions.of(condition).wait(guard))
    }

    fn notify(&self, condition: Condition) {
        self.conditions.of(condition).notify_one();
    }
}

/// The crate parking_lot's.
pub struct ParkingLot {
    buffer: parking_lot::Mutex<Buffer>,
    conditions: Conditions<parking_lot::Condvar>,
}

impl Lock for ParkingLot {
    type Guard<'a> = parking_lot::MutexGuard<'a, Buffer>;

    fn new(buffer: Buffer) -> ParkingLot {
        ParkingLot {
            buffer: parking_lot::Mutex::new(buffer),
            conditions: Conditions::default(),
        }
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.buffer.try_lock()
    }

    fn lock(&self) -> Self::Guard<'_> {
        self.buffer.lock()
    }

    fn wait<'a>(&'a self, condition: Condition, mut guard: Self::Guard<'a>) -> Self::Guard<'a> {
        self.conditions.of(condition).wait(&mut guard);
        guard
    }

    fn notify(&self, condition: Condition) {
        self.conditions.of(condition).notify_one();
    }
}
