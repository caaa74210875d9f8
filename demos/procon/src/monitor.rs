//! The buffer with a mutex and two conditions around it, which producer and consumer call.

use std::ops::{Add, DerefMut};

use atomseq::mutex::Interventions;

use super::buffer::Buffer;

/// The condition that a thread waits for.
#[derive(Clone, Copy)]
pub enum Condition {
    NotFull,
    NotEmpty,
}

/// A mutex around the buffer, and its two conditions.
pub trait Lock: Sync {
    type Guard<'a>: DerefMut<Target = Buffer>
    where
        Self: 'a;

    fn new(buffer: Buffer) -> Self;

    /// Acquires the mutex, waiting while another thread holds it.
    fn lock(&self, tally: &mut Tally) -> Self::Guard<'_>;

    /// Releases the mutex, waits for a notification, and acquires the mutex again. May return
    /// without a notification.
    fn wait<'a>(
        &'a self,
        condition: Condition,
        guard: Self::Guard<'a>,
        tally: &mut Tally,
    ) -> Self::Guard<'a>;

    fn notify(&self, condition: Condition);

    /// Returns what the mutex itself has counted: zeros if its callers count.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// Returns what the kernel or signal handlers have done for the mechanism so far.
    fn interventions() -> Interventions {
        Interventions::default()
    }
}

/// The counters of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Acquisitions of the mutex, including those after a wait for a condition.
    pub acquisitions: u64,
    /// Acquisitions that found the mutex held. After a wait for a condition, only a mutex that
    /// counts itself knows that.
    pub found_held: u64,
    /// Waits for a condition.
    pub waits: u64,
}

impl Add for Tally {
    type Output = Tally;

    fn add(self, other: Tally) -> Tally {
        Tally {
            acquisitions: self.acquisitions + other.acquisitions,
            found_held: self.found_held + other.found_held,
            waits: self.waits + other.waits,
        }
    }
}

/// The buffer and its lock.
pub struct Monitor<L>(L);

impl<L: Lock> Monitor<L> {
    pub fn new(slots: usize, block: usize) -> Monitor<L> {
        Monitor(L::new(Buffer::new(slots, block)))
    }

    /// Puts a block into the buffer, waiting for room. Returns `false` if the consumer has
    /// finished.
    pub fn put(&self, block: &[u8], tally: &mut Tally) -> bool {
        let mut buffer = self.0.lock(tally);
        while buffer.is_full() && !buffer.abandoned {
            buffer = self.wait(Condition::NotFull, buffer, tally);
        }
        if buffer.abandoned {
            return false;
        }
        let was_empty = buffer.is_empty();
        buffer.put(block);
        drop(buffer);
        // There is one consumer, which waits only while the buffer is empty.
        if was_empty {
            self.0.notify(Condition::NotEmpty);
        }
        true
    }

    /// Takes a block out and appends it to `to`, waiting for one. Returns `false` if the buffer is
    /// empty and the producer has finished.
    pub fn take(&self, to: &mut Vec<u8>, tally: &mut Tally) -> bool {
        let mut buffer = self.0.lock(tally);
        while buffer.is_empty() && !buffer.ended {
            buffer = self.wait(Condition::NotEmpty, buffer, tally);
        }
        if buffer.is_empty() {
            return false;
        }
        let was_full = buffer.is_full();
        buffer.take(to);
        drop(buffer);
        // There is one producer, which waits only while the buffer is full.
        if was_full {
            self.0.notify(Condition::NotFull);
        }
        true
    }

    /// Marks the calling side as finished, and wakes the other one.
    pub fn leave(&self, tally: &mut Tally) {
        let mut buffer = self.0.lock(tally);
        buffer.ended = true;
        buffer.abandoned = true;
        drop(buffer);
        self.0.notify(Condition::NotFull);
        self.0.notify(Condition::NotEmpty);
    }

    /// Returns what the mutex itself has counted.
    pub fn tally(&self) -> Tally {
        self.0.tally()
    }

    fn wait<'a>(
        &'a self,
        condition: Condition,
        guard: L::Guard<'a>,
        tally: &mut Tally,
    ) -> L::Guard<'a> {
        tally.waits += 1;
        self.0.wait(condition, guard, tally)
    }
}
