//! How a writer excludes readers that count themselves per CPU, without an atomic instruction.
//!
//! ```text
//! enter    section: if the bias is ON, add 1 to this CPU's count
//! leave    section: subtract 1 from this CPU's count;  then look for WRITER: depart
//! count    if WRITER is not set: add a reader to the shared word; if WRITER was set: subtract it
//!          again, depart
//! depart   add to the departures; if SLEEPER was set there: wake the writer
//! exclude  set WRITER in the shared word; if the bias is ON: turn it off, and fence all CPUs;
//!          wait until the sum of all counts is 0, with a barrier on all CPUs before the first
//!          sleep, and SLEEPER set in the departures before each
//! admit    clear WRITER; after enough readers without a writer, turn the bias on again
//! ```
//!
//! 1. No reader enters while there is a writer. A section that found the bias on has committed
//!    before the fence, which makes its count visible to the writer, or is aborted by it. A
//!    counting reader changes the word that has the flag.
//! 2. A reader may leave on another CPU than the one it entered on. Single counts therefore mean
//!    nothing, and may wrap around; their sum is the number of readers.
//! 3. Once a writer has excluded new readers, counts change only by leaving. (A counting reader
//!    that subtracts itself again has added itself to the same word.) So a sum that was read while
//!    readers left is at least the number of those that are left at the end of the reading: 0 means
//!    none.
//! 4. A writer does not sleep through the last reader's leaving. A leave whose count the writer
//!    cannot see after the barrier looks for WRITER after the barrier, finds it, and departs. A
//!    reader that leaves by the shared word needs no barrier. A departure that precedes SLEEPER
//!    makes the count visible to the writer that sets it; a later one finds it, and wakes the
//!    writer.
//! 5. The shared word does not wrap around: more readers in it than [`MAX`] end the process.
//!
//! Writers exclude each other by a mutex, which readers that find a writer wait for too. Only its
//! holder changes the bias and WRITER. The models in `verify/` compile this file a second time.

use std::sync::atomic::compiler_fence;

use crate::end;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, pause, pauses, wake_one};

/// Readers enter by the section.
pub(super) const ON: usize = 0;
/// Readers enter by the shared word.
pub(super) const OFF: usize = 1;

/// A flag of the shared word: a writer holds the lock, or waits for the readers to leave.
const WRITER: usize = 1;
/// A reader in the shared word.
const READER: usize = 2;
/// The max value of the shared word: half of what it holds as a signed number. The other half is
/// for threads that have passed it and have not ended the process yet. The word is negative where
/// readers that entered by sections have left by it.
pub(super) const MAX: isize = isize::MAX / 2;

/// A flag of the departures: the writer sleeps, or is about to.
const SLEEPER: u32 = 1;
/// A reader's departure.
const DEPARTURE: u32 = 2;

/// The counts per CPU.
pub(super) trait Parts {
    /// Adds 1 to this CPU's count in a section that finds the bias on. Returns false if it did not.
    fn enter(&self, bias: &AtomicUsize) -> bool;
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
    pub(super) bias: AtomicUsize,
    /// The readers that entered by this word, less those that left by it, times [`READER`]; and the
    /// flag [`WRITER`].
    pub(super) shared: AtomicUsize,
    /// How often a reader left, or subtracted itself again, while there was a writer, times
    /// [`DEPARTURE`]; and the flag [`SLEEPER`]. Writers sleep on it.
    pub(super) departures: AtomicU32,
}

impl Readers {
    /// Returns whether readers enter by the section. May be out of date.
    #[inline(always)]
    pub(super) fn is_biased(&self) -> bool {
        // Acquire: pairs with the Release in `turn_on`, which publishes the parts.
        self.bias.load(Ordering::Acquire) == ON
    }

    /// Returns whether a writer holds the lock or waits for it. May be out of date.
    #[inline(always)]
    pub(super) fn has_writer(&self) -> bool {
        // Relaxed: a hint; or, in `leave`, ordered by the writer's barrier.
        self.shared.load(Ordering::Relaxed) & WRITER != 0
    }

    /// Adds a reader to the shared word, and returns what the word was. Ends the process if there
    /// are too many: guards that are forgotten leave the number of readers without a bound, and a
    /// number that had wrapped around would let a writer in.
    fn add(&self, order: Ordering) -> usize {
        let before = self.shared.fetch_add(READER, order);
        if before.cast_signed() > MAX {
            end::abort(
                "atomseq: an `RwLock` has more readers than it can count; drop guards instead of forgetting them; aborting\n",
            );
        }
        before
    }

    /// Counts a reader. Returns false if there is a writer.
    pub(super) fn count(&self) -> bool {
        // One that is refused leaves the word alone. The writer waits for a moment at which no
        // reader is counted, and threads that try again and again would leave it none.
        if self.has_writer() {
            return false;
        }
        // Acquire: pairs with the Release in `admit`.
        let counted = self.add(Ordering::Acquire) & WRITER == 0;
        if !counted {
            self.uncount();
        }
        counted
    }

    /// Counts a reader while the caller holds the writers' mutex, so that no other thread is a
    /// writer.
    pub(super) fn count_without_writer(&self) {
        // Relaxed: the mutex orders it before the next writer, and after the last one.
        self.add(Ordering::Relaxed);
    }

    /// Ends a reader's access. With `parts`, this is the section and a load.
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
        // Release: ends the reader's access; pairs with the Acquire in `has_readers`.
        if self.shared.fetch_sub(READER, Ordering::Release) & WRITER != 0 {
            self.depart();
        }
    }

    #[cold]
    fn depart(&self) {
        // Release: pairs with the Acquire in `outlast`, which then reads the count that this reader
        // has left behind.
        if self.departures.fetch_add(DEPARTURE, Ordering::Release) & SLEEPER != 0 {
            wake_one(&self.departures);
        }
    }

    /// Returns whether there are readers. Exact only while there is a writer, and then `false`
    /// means none.
    pub(super) fn has_readers(&self, parts: Option<&impl Parts>) -> bool {
        // Acquire: pairs with the Release in `uncount`.
        let shared = self.shared.load(Ordering::Acquire) & !WRITER;
        let sum = parts.map_or(0, Parts::sum);
        shared.wrapping_add(sum.wrapping_mul(READER)) != 0
    }

    /// Keeps new readers out, and waits until the others have left. Returns false, and admits
    /// readers again, if `sleep` has reported a timeout. The caller holds the writers' mutex.
    ///
    /// `sleep` gets a word and a value. It sleeps while the word holds the value, until it is
    /// woken, or for no reason, and returns true. It returns false on a timeout, without having
    /// slept.
    pub(super) fn exclude(
        &self,
        parts: Option<&impl Parts>,
        sleep: impl FnMut(&AtomicU32, u32) -> bool,
    ) -> bool {
        // Relaxed: readers change the same word, so each precedes this or finds it. The Acquire in
        // `has_readers` pairs with those that have left.
        self.shared.fetch_or(WRITER, Ordering::Relaxed);
        // Relaxed, twice: only the holder of the mutex changes it, and the fence is a system call.
        if self.bias.load(Ordering::Relaxed) == ON {
            self.bias.store(OFF, Ordering::Relaxed);
            parts.into_iter().for_each(Parts::fence);
        }
        for round in 0..pauses() {
            if !self.has_readers(parts) {
                return true;
            }
            pause(round);
        }
        parts.into_iter().for_each(Parts::barrier);
        let excluded = self.outlast(parts, sleep);
        // Relaxed: a departure that still finds the flag wakes no thread, or one that looks again.
        self.departures.fetch_and(!SLEEPER, Ordering::Relaxed);
        if !excluded {
            self.admit();
        }
        excluded
    }

    /// Sleeps until the readers have left. Returns false if `sleep` has reported a timeout. Leaves
    /// SLEEPER set.
    fn outlast(
        &self,
        parts: Option<&impl Parts>,
        mut sleep: impl FnMut(&AtomicU32, u32) -> bool,
    ) -> bool {
        loop {
            // Acquire: pairs with the Release in `depart`. A reader that departs after this changes
            // the word, so that this thread does not sleep, and finds the flag.
            let departures = self.departures.fetch_or(SLEEPER, Ordering::Acquire) | SLEEPER;
            if !self.has_readers(parts) {
                return true;
            }
            if !sleep(&self.departures, departures) {
                return false;
            }
        }
    }

    /// Admits readers, which count themselves. The caller is the writer.
    pub(super) fn admit(&self) {
        // Release: pairs with the Acquire in `count`.
        self.shared.fetch_and(!WRITER, Ordering::Release);
    }

    /// Lets readers enter by sections. The caller holds the writers' mutex, and has prepared the
    /// parts.
    pub(super) fn turn_on(&self) {
        // Release: pairs with the Acquire in `is_biased` and in the section, for the parts and for
        // what the last writer has written.
        self.bias.store(ON, Ordering::Release);
    }
}
