//! How a writer excludes readers that count themselves per CPU, without an atomic instruction.
//!
//! ```text
//! enter    section: if the state is BIASED, add 1 to this CPU's count
//! leave    section: subtract 1 from this CPU's count;  then read the state: wake a writer
//! count    add 1 to the shared count, then read the state: subtract 1 again if it is WRITER
//! exclude  exchange the state for WRITER; if it was BIASED: fence all CPUs;
//!          wait until the sum of all counts is 0, with a barrier on all CPUs before the first sleep
//! admit    state = COUNTED; after enough readers without a writer, BIASED again
//! ```
//!
//! 1. A reader enters only while the state is not WRITER. A section that read BIASED has committed
//!    before the fence, which makes its count visible to the writer, or is aborted by it. A counting
//!    reader and the writer each change their word before they read the other's.
//! 2. A reader may leave on another CPU than the one it entered on. Single counts therefore mean
//!    nothing, and may wrap around; their sum is the number of readers.
//! 3. Once a writer has excluded new readers, counts change only by leaving. (A counting reader that
//!    subtracts 1 again has added it to the same word.) So a sum that was read while readers left is
//!    at least the number of those that are left at the end of the reading: 0 means none.
//! 4. A writer does not sleep through the last reader's leaving. A leave whose count the writer
//!    cannot see after the barrier reads the state after the barrier, finds WRITER, and wakes it. A
//!    reader that leaves by the shared count needs no barrier.
//!
//! Writers exclude each other by a mutex, which readers that find a writer wait for too. Only its
//! holder changes the state. The models in `verify/` compile this file a second time.

use std::sync::atomic::compiler_fence;

use crate::sync::{AtomicU32, AtomicUsize, Ordering, pause, pauses, wake_one};

/// Readers enter by the section.
pub(super) const BIASED: usize = 0;
/// Readers enter by the shared count.
pub(super) const COUNTED: usize = 1;
/// A writer holds the lock, or waits for the readers to leave.
const WRITER: usize = 2;

/// The counts per CPU.
pub(super) trait Parts {
    /// Adds 1 to this CPU's count in a section that finds the state BIASED. Returns false if it did
    /// not.
    fn enter(&self, state: &AtomicUsize) -> bool;
    /// Subtracts 1 from this CPU's count in a section. Returns false if this thread cannot run
    /// sections.
    fn leave(&self) -> bool;
    /// Returns the sum of the counts, each read once, by an Acquire.
    fn sum(&self) -> usize;
    /// Aborts the sections on all CPUs, and makes the stores of those that have committed visible.
    fn fence(&self);
    /// Executes a memory barrier on all CPUs.
    fn barrier(&self);
}

/// The words of a lock that all CPUs share.
#[derive(Debug)]
pub(super) struct Readers {
    pub(super) state: AtomicUsize,
    /// The readers that entered by this count, less those that left by it.
    pub(super) counted: AtomicUsize,
    /// How often a reader left, or subtracted 1 again, while a writer waited. Writers sleep on it.
    pub(super) departures: AtomicU32,
}

impl Readers {
    /// Returns whether readers enter by the section. May be out of date.
    #[inline(always)]
    pub(super) fn is_biased(&self) -> bool {
        // Acquire: pairs with the Release in `bias`, which publishes the parts.
        self.state.load(Ordering::Acquire) == BIASED
    }

    /// Returns whether a writer holds the lock or waits for it. May be out of date.
    pub(super) fn has_writer(&self) -> bool {
        // Relaxed: a hint.
        self.state.load(Ordering::Relaxed) == WRITER
    }

    /// Counts a reader. Returns false if there is a writer.
    pub(super) fn count(&self) -> bool {
        // SeqCst, twice: pairs with the exchange and the loads in `exclude`. The second is also an
        // Acquire that pairs with the Release in `admit`.
        self.counted.fetch_add(1, Ordering::SeqCst);
        if self.state.load(Ordering::SeqCst) != WRITER {
            return true;
        }
        self.uncount();
        false
    }

    /// Counts a reader while the caller holds the writers' mutex, so that there is no writer.
    pub(super) fn count_without_writer(&self) {
        // Relaxed: the mutex orders it before the next writer, and after the last one.
        self.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a reader's access. Inlined, with `parts` known, this is the section and a load.
    #[inline(always)]
    pub(super) fn leave(&self, parts: Option<&impl Parts>) {
        if !parts.is_some_and(Parts::leave) {
            return self.uncount();
        }
        // The processor may execute the load before the count is visible, but the compiler must not
        // move it. The writer's barrier makes up for the processor.
        compiler_fence(Ordering::SeqCst);
        if self.has_writer() {
            self.depart();
        }
    }

    #[cold]
    fn uncount(&self) {
        // SeqCst, twice: pairs with the exchange and the loads in `exclude`. The first is also the
        // Release that ends the reader's access.
        self.counted.fetch_sub(1, Ordering::SeqCst);
        if self.state.load(Ordering::SeqCst) == WRITER {
            self.depart();
        }
    }

    #[cold]
    fn depart(&self) {
        // Release: pairs with the Acquire in `exclude`, which then reads the count that this reader
        // has left behind.
        self.departures.fetch_add(1, Ordering::Release);
        wake_one(&self.departures);
    }

    /// Returns the number of readers. Exact only while there is a writer, and then 0 means none.
    pub(super) fn inside(&self, parts: Option<&impl Parts>) -> usize {
        // SeqCst: pairs with the operations of `count` and `uncount`.
        let counted = self.counted.load(Ordering::SeqCst);
        counted.wrapping_add(parts.map_or(0, Parts::sum))
    }

    /// Keeps new readers out, and waits until the others have left. Returns false, and admits
    /// readers again, if `sleep` has reported a timeout. The caller holds the writers' mutex.
    ///
    /// `sleep` gets a word and a value. It sleeps while the word holds the value, until it is woken,
    /// or for no reason, and returns true. It returns false on a timeout, without having slept.
    pub(super) fn exclude(
        &self,
        parts: Option<&impl Parts>,
        mut sleep: impl FnMut(&AtomicU32, u32) -> bool,
    ) -> bool {
        // SeqCst: pairs with the operations of `count` and `uncount`.
        let was_biased = self.state.swap(WRITER, Ordering::SeqCst) == BIASED;
        if let Some(parts) = parts.filter(|_| was_biased) {
            parts.fence();
        }
        for round in 0..pauses() {
            if self.inside(parts) == 0 {
                return true;
            }
            pause(round);
        }
        if let Some(parts) = parts {
            parts.barrier();
        }
        loop {
            // Acquire: pairs with the Release in `depart`. A reader that departs after this load
            // changes the word, and the thread does not sleep.
            let departures = self.departures.load(Ordering::Acquire);
            if self.inside(parts) == 0 {
                return true;
            }
            if !sleep(&self.departures, departures) {
                self.admit();
                return false;
            }
        }
    }

    /// Admits readers, who count themselves. The caller is the writer.
    pub(super) fn admit(&self) {
        // Release: pairs with the loads of readers, which then see what the writer has written.
        self.state.store(COUNTED, Ordering::Release);
    }

    /// Lets readers enter by sections. The caller holds the writers' mutex, and has prepared the
    /// parts.
    pub(super) fn bias(&self) {
        // Release: pairs with the Acquire in `is_biased` and in the section, for the parts and for
        // what the last writer has written.
        self.state.store(BIASED, Ordering::Release);
    }
}
