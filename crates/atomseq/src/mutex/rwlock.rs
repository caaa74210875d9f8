//! A lock with many readers at a time, which count themselves per CPU. `readers.rs` has the
//! algorithm.

use std::fmt;
use std::time::{Duration, Instant};

use lock_api::{RawMutex as _, RawRwLock as _};

use super::deadline::Deadline;
use super::home::can_be_fenced;
use super::readers::{OFF, Parts, Readers};
use super::{Interlocked, RawMutex};
use crate::percpu::{Area, Lazy};
use crate::platform;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

const COUNT: usize = Area::FIRST_WORD;

crate::sequence! {
    /// Adds a reader to this CPU's count if the lock's bias is on: 0.
    unsafe fn enter(slot: Slot, bias: Word) -> bool {
        // Acquire: pairs with the Release of the last writer.
        let off = load_acquire(bias);
        if off != 0 { return false }
        let count = load(slot + COUNT);
        commit(slot + COUNT, count + 1);
        true
    }

    /// Subtracts a reader from this CPU's count.
    unsafe fn leave(slot: Slot) {
        let count = load(slot + COUNT);
        // Release: pairs with the Acquire of the writer that reads the counts.
        commit_release(slot + COUNT, count - 1);
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&enter::MODEL, &leave::MODEL];

/// After how many counted readers without a writer readers become biased. A writer then pays for a
/// fence: a few microseconds, which are some nanoseconds for each of these readers.
const READERS_PER_FENCE: u32 = 1024;

/// The raw lock of [`RwLock`](super::RwLock), which describes it.
pub struct RawRwLock {
    readers: Readers,
    /// How many readers have been counted since the last writer. Not exact: some are lost.
    since: AtomicU32,
    /// Excludes writers. Its holder turns the bias on and off.
    writers: RawMutex<Interlocked>,
    /// The counts per CPU. Published only where sections can be fenced.
    area: Lazy,
}

impl Readers {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "the value that new ones begin with, and nothing else"
    )]
    const NEW: Readers = Readers {
        bias: AtomicUsize::new(OFF),
        shared: AtomicUsize::new(0),
        departures: AtomicU32::new(0),
    };
}

impl Parts for Lazy {
    #[inline(always)]
    fn enter(&self, bias: &AtomicUsize) -> bool {
        // SAFETY: the sequence accesses the first word of a slot, which only these two sequences
        // write, and the bias, which outlives the call.
        let enter = |slots| unsafe { enter::on_cpu(slots, bias.as_ptr() as usize) == Ok(true) };
        self.slots().is_some_and(enter)
    }

    #[inline(always)]
    fn leave(&self) -> bool {
        // SAFETY: the sequence accesses the first word of a slot, which only these two sequences
        // write.
        let leave = |slots| unsafe { leave::on_cpu(slots) }.is_ok();
        self.slots().is_some_and(leave)
    }

    fn sum(&self) -> usize {
        let counts = (0..self.mapped_cpus()).filter_map(|cpu| self.word(cpu as isize, COUNT));
        // Acquire: pairs with the Release in `leave`.
        let counts = counts.map(|count| count.load(Ordering::Acquire));
        counts.fold(0, usize::wrapping_add)
    }

    fn fence(&self) {
        platform::fence_all();
    }

    fn barrier(&self) {
        platform::barrier();
    }
}

impl RawRwLock {
    /// Returns the counts per CPU, if readers can enter by them.
    #[inline(always)]
    fn parts(&self) -> Option<&Lazy> {
        self.area.is_published().then_some(&self.area)
    }

    #[inline(always)]
    fn enter(&self) -> bool {
        self.readers.is_biased() && self.area.enter(&self.readers.bias)
    }

    #[cold]
    #[inline(never)]
    fn lock_shared_slowly(&self, deadline: Deadline) -> bool {
        if self.try_count() {
            // Relaxed: only a hint when a bias pays. Not in `try_count`, which handlers call.
            if self.since.load(Ordering::Relaxed) >= READERS_PER_FENCE {
                self.bias();
            }
        } else {
            if !self.writers.lock_until(deadline) {
                return false;
            }
            self.readers.count_without_writer();
            // SAFETY: this thread has just locked it.
            unsafe { self.writers.unlock() };
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn try_count(&self) -> bool {
        platform::register_this_thread();
        let counted = self.readers.count();
        // Relaxed: a hint, of which concurrent readers lose some.
        let since = self.since.load(Ordering::Relaxed).saturating_add(1);
        self.since.store(since, Ordering::Relaxed);
        counted
    }

    /// Lets readers enter by sections from now on, if there are sections and no writer.
    #[cold]
    fn bias(&self) {
        self.since.store(0, Ordering::Relaxed);
        if !can_be_fenced() || !self.writers.try_lock() {
            return;
        }
        if self.area.map_fenced_at_once().is_ok() && self.area.is_published() {
            self.readers.turn_on();
        }
        // SAFETY: this thread has just locked it.
        unsafe { self.writers.unlock() };
    }

    #[inline]
    fn lock_exclusive_until(&self, deadline: Deadline) -> bool {
        self.writers.lock_until(deadline)
            && self.exclude(|word, departures| deadline.sleep(word, departures))
    }

    /// Waits for the readers to leave. The caller holds the mutex, which this unlocks on a timeout.
    fn exclude(&self, sleep: impl FnMut(&AtomicU32, u32) -> bool) -> bool {
        self.since.store(0, Ordering::Relaxed);
        let excluded = self.readers.exclude(self.parts(), sleep);
        if !excluded {
            // SAFETY: the caller has locked it.
            unsafe { self.writers.unlock() };
        }
        excluded
    }
}

// SAFETY: `readers.rs` explains why no reader and writer, and no two writers, hold the lock at the
// same time. Each successful call is matched by one unlock: a reader is counted once, and the
// writer holds the mutex.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api's way to make new ones"
    )]
    const INIT: RawRwLock = RawRwLock {
        readers: Readers::NEW,
        since: AtomicU32::new(0),
        writers: RawMutex::INIT,
        area: Lazy::with_bulk(0),
    };
    /// A reader may leave on any thread, and a writer's mutex may be unlocked by any.
    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock_shared(&self) {
        if !self.enter() {
            self.lock_shared_slowly(Deadline::Never);
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.enter() || self.try_count()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.readers.leave(Some(&self.area));
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.lock_exclusive_until(Deadline::Never);
    }

    fn try_lock_exclusive(&self) -> bool {
        // The first test avoids a fence that would be in vain.
        !self.readers.has_readers(self.parts())
            && self.writers.try_lock()
            && self.exclude(|_, _| false)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.readers.admit();
        // SAFETY: the writer holds the mutex.
        unsafe { self.writers.unlock() };
    }

    fn is_locked(&self) -> bool {
        self.is_locked_exclusive() || self.readers.has_readers(self.parts())
    }

    fn is_locked_exclusive(&self) -> bool {
        self.readers.has_writer()
    }
}

// SAFETY: true is returned only where the untimed operations would return.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.enter() || self.lock_shared_slowly(Deadline::after(timeout))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.enter() || self.lock_shared_slowly(Deadline::at(timeout))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.lock_exclusive_until(Deadline::after(timeout))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.lock_exclusive_until(Deadline::at(timeout))
    }
}

// SAFETY: the reader is counted before the writer admits others, so no writer comes between.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        self.readers.count_without_writer();
        // SAFETY: the caller is the writer.
        unsafe { self.unlock_exclusive() };
    }
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock")
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::super::readers::MAX;
    use super::*;
    use crate::percpu::while_another_thread_maps;

    /// Returns the signal that killed a child which did this with so much in the shared word.
    fn ended_by(shared: isize, count: impl FnOnce(&Readers)) -> Option<i32> {
        let readers = Readers {
            shared: AtomicUsize::new(shared.cast_unsigned()),
            ..Readers::NEW
        };
        // SAFETY: the child makes only async-signal-safe calls.
        let child = unsafe { libc::fork() };
        if child == 0 {
            count(&readers);
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
    }

    /// Reads so often that the readers' counts are mapped. Returns whether they are.
    fn maps(lock: &RawRwLock) -> bool {
        use lock_api::RawRwLock as _;
        for _ in 0..=READERS_PER_FENCE {
            lock.lock_shared();
            // SAFETY: this thread has just locked it.
            unsafe { lock.unlock_shared() };
        }
        lock.area.is_published()
    }

    /// A reader can be counted in the shared word, so it waits for no thread that maps memory.
    #[test]
    fn a_reader_does_not_wait_for_memory() {
        use lock_api::RawRwLock as _;
        if !can_be_fenced() {
            return;
        }
        // Other tests may take the turn over, but not each time.
        assert!((0..20).any(|_| {
            let lock = RawRwLock::INIT;
            let is_mapped = while_another_thread_maps(|| maps(&lock));
            assert!((0..20).any(|_| maps(&lock)), "it is not mapped later");
            !is_mapped
        }));
    }

    /// Each would otherwise be counted for a moment, and a writer waits for one without readers.
    #[test]
    fn a_refused_reader_changes_nothing() {
        use lock_api::RawRwLock as _;
        let lock = RawRwLock::INIT;
        lock.lock_exclusive();
        let departures = || lock.readers.departures.load(Ordering::Relaxed);
        let before = departures();
        assert!((0..1000).all(|_| !lock.try_lock_shared()));
        assert_eq!(departures(), before, "a refused reader has departed");
        // SAFETY: this thread has locked it.
        unsafe { lock.unlock_exclusive() };
        assert!(lock.try_lock_shared());
    }

    /// Otherwise they would wrap around to 0, and a writer would not see those that are left.
    #[test]
    fn too_many_readers_end_the_process() {
        let counts: [fn(&Readers); 2] = [
            |readers| assert!(readers.count()),
            Readers::count_without_writer,
        ];
        for count in counts {
            assert_eq!(ended_by(MAX - 1, count), None);
            assert_eq!(ended_by(MAX + 1, count), Some(libc::SIGABRT));
            // Readers that entered by sections have left by the shared word.
            assert_eq!(ended_by(-2, count), None);
        }
    }
}
