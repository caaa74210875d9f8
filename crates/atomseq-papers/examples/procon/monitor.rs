//! The buffer with a mutex and two conditions around it: what producer and consumer call.

use std::ops::{Add, DerefMut};

use atomseq::mutex::Interventions;

use super::buffer::Buffer;

/// What a thread waits for.
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

    /// Waits until nobody has the mutex, and has it.
    fn lock(&self, tally: &mut Tally) -> Self::Guard<'_>;

    /// Releases the mutex, waits until notified (or for no reason), and has the mutex again.
    fn wait<'a>(
        &'a self,
        condition: Condition,
        guard: Self::Guard<'a>,
        tally: &mut Tally,
    ) -> Self::Guard<'a>;

    fn notify(&self, condition: Condition);

    /// What the mutex has counted itself; nothing if it leaves that to those who use it.
    fn tally(&self) -> Tally {
        Tally::default()
    }

    /// What somebody had to do for the mechanism so far.
    fn interventions() -> Interventions {
        Interventions::default()
    }
}

/// What a thread counts of its own doings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// How often it acquired the mutex, after a wait for a condition included.
    pub acquisitions: u64,
    /// How often the mutex was held when it came; after a wait for a condition, only mutexes that
    /// count know.
    pub found_held: u64,
    /// How often it waited for a condition.
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

    /// Puts a block in, once there is room; `false` if nobody takes it out any more.
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
        // There is one consumer, and it waits only for an empty buffer to have something.
        if was_empty {
            self.0.notify(Condition::NotEmpty);
        }
        true
    }

    /// Takes a block out and appends it, once there is one; `false` if there will be none any more.
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
        // There is one producer, and it waits only for a full buffer to have room.
        if was_full {
            self.0.notify(Condition::NotFull);
        }
        true
    }

    /// A side goes: whoever waits for it need not any longer.
    pub fn leave(&self, tally: &mut Tally) {
        let mut buffer = self.0.lock(tally);
        buffer.ended = true;
        buffer.abandoned = true;
        drop(buffer);
        self.0.notify(Condition::NotFull);
        self.0.notify(Condition::NotEmpty);
    }

    /// What the mutex has counted itself.
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
