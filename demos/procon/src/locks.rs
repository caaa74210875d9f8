//! The mutexes around the buffer: atomseq's, by mechanism, and those of others.

use std::sync::{self, TryLockError};

use atomseq::mutex::{Condvar, Counted, Interventions, MutexBy, RawMutex, TestAndSet, counts};

use super::buffer::{Buffer, even_if_poisoned};
use super::monitor::{Condition, Lock, Tally};

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

/// atomseq's mutex whose waiters sleep, on one mechanism.
pub struct Relinquishing<M: TestAndSet> {
    buffer: MutexBy<Counted<M>, Buffer>,
    conditions: Conditions<Condvar>,
}

impl<M: TestAndSet> Relinquishing<M> {
    fn new(buffer: Buffer) -> Self {
        Relinquishing {
            buffer: MutexBy::new(buffer),
            conditions: Conditions::default(),
        }
    }

    fn tally(&self) -> Tally {
        let counts = counts(&self.buffer);
        Tally {
            acquisitions: counts.acquisitions,
            found_held: counts.found_held,
            ..Tally::default()
        }
    }
}

impl<M: TestAndSet + Send + Sync> Lock for Relinquishing<M> {
    type Guard<'a>
        = lock_api::MutexGuard<'a, RawMutex<Counted<M>>, Buffer>
    where
        M: 'a;

    fn new(buffer: Buffer) -> Self {
        Relinquishing::new(buffer)
    }

    fn lock(&self, _tally: &mut Tally) -> Self::Guard<'_> {
        self.buffer.lock()
    }

    fn wait<'a>(
        &'a self,
        condition: Condition,
        mut guard: Self::Guard<'a>,
        _tally: &mut Tally,
    ) -> Self::Guard<'a> {
        self.conditions.of(condition).wait(&mut guard);
        guard
    }

    fn notify(&self, condition: Condition) {
        self.conditions.of(condition).notify_one();
    }

    fn tally(&self) -> Tally {
        Relinquishing::tally(self)
    }

    fn interventions() -> Interventions {
        M::interventions()
    }
}

/// Takes a lock that does not count its acquisitions, and counts them. Costs a second attempt where
/// the first one fails.
fn counting<G>(
    tally: &mut Tally,
    try_lock: impl FnOnce() -> Option<G>,
    lock: impl FnOnce() -> G,
) -> G {
    tally.acquisitions += 1;
    try_lock().unwrap_or_else(|| {
        tally.found_held += 1;
        lock()
    })
}

/// The standard library's mutex.
pub struct Std {
    buffer: sync::Mutex<Buffer>,
    conditions: Conditions<sync::Condvar>,
}

impl Lock for Std {
    type Guard<'a> = sync::MutexGuard<'a, Buffer>;

    fn new(buffer: Buffer) -> Std {
        Std {
            buffer: sync::Mutex::new(buffer),
            conditions: Conditions::default(),
        }
    }

    fn lock(&self, tally: &mut Tally) -> Self::Guard<'_> {
        let try_lock = || match self.buffer.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        counting(tally, try_lock, || even_if_poisoned(self.buffer.lock()))
    }

    fn wait<'a>(
        &'a self,
        condition: Condition,
        guard: Self::Guard<'a>,
        tally: &mut Tally,
    ) -> Self::Guard<'a> {
        tally.acquisitions += 1;
        even_if_poisoned(self.conditions.of(condition).wait(guard))
    }

    fn notify(&self, condition: Condition) {
        self.conditions.of(condition).notify_one();
    }
}

/// parking_lot's mutex.
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

    fn lock(&self, tally: &mut Tally) -> Self::Guard<'_> {
        counting(tally, || self.buffer.try_lock(), || self.buffer.lock())
    }

    fn wait<'a>(
        &'a self,
        condition: Condition,
        mut guard: Self::Guard<'a>,
        tally: &mut Tally,
    ) -> Self::Guard<'a> {
        tally.acquisitions += 1;
        self.conditions.of(condition).wait(&mut guard);
        guard
    }

    fn notify(&self, condition: Condition) {
        self.conditions.of(condition).notify_one();
    }
}
