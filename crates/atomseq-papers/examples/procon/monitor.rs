//! The buffer with a mutex and two conditions around it: what producer and consumer call.

use std::ops::DerefMut;

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

    fn try_lock(&self) -> Option<Self::Guard<'_>>;

    fn lock(&self) -> Self::Guard<'_>;

    /// Releases the mutex, waits until notified (or for no reason), and has the mutex again.
    fn wait<'a>(&'a self, condition: Condition, guard: Self::Guard<'a>) -> Self::Guard<'a>;

    fn notify(&self, condition: Condition);

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
    /// How often the mutex was held when it came; not counted after a wait.
    pub found_held: u64,
    /// How often it waited for a condition.
    pub waits: u64,
}

/// The buffer and its lock.
pub struct Monitor<L>(L);

impl<L: Lock> Monitor<L> {
    pub fn new(slots: usize, block: usize) -> Monitor<L> {
        Monitor(L::new(Buffer::new(slots, block)))
    }

    /// Puts a block in, once there is room; `false` if nobody takes it out any more.
    pub fn put(&self, block: &[u8], tally: &mut Tally) -> bool {
        let mut buffer = self.enter(tally);
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
        let mut buffer = self.enter(tally);
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
    pub fn leave(&self) {
        let mut buffer = self.0.lock();
        buffer.ended = true;
        buffer.abandoned = true;
        drop(buffer);
        self.0.notify(Condition::NotFull);
        self.0.notify(Condition::NotEmpty);
    }

    fn enter(&self, tally: &mut Tally) -> L::Guard<'_> {
        tally.acquisitions += 1;
        self.0.try_lock().unwrap_or_else(|| {
            tally.found_held += 1;
            self.0.lock()
        })
    }

    fn wait<'a>(
        &'a self,
        condition: Condition,
        guard: L::Guard<'a>,
        tally: &mut Tally,
    ) -> L::Guard<'a> {
        tally.waits += 1;
        tally.acquisitions += 1;
        self.0.wait(condition, guard)
    }
}
