//! Flat combining: Hendler, Incze, Shavit and Tzafrir, *Flat Combining and the
//! Synchronization-Parallelism Tradeoff* (2010).
//!
//! Each thread has a record, in which it publishes its operation. A thread that acquires the lock
//! is the combiner: it carries out the published operations of all threads. The others
//! wait for their results, or for the lock. A combiner that is preempted keeps the lock.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;

use crossbeam_utils::CachePadded;

/// How many times a combiner looks at all records.
const PASSES: usize = 3;

/// How many pauses a thread waits before it yields, as the paper's threads do where there are more
/// threads than CPUs.
const SPINS: u32 = 1 << 7;

const EMPTY: u32 = 0;
const PUBLISHED: u32 = 1;
const DONE: u32 = 2;

/// An object that threads change by published operations.
pub struct FlatCombining<T, O, R> {
    is_locked: CachePadded<AtomicBool>,
    object: UnsafeCell<T>,
    records: Box<[CachePadded<Record<O, R>>]>,
    /// How many records have an owner.
    owned: AtomicUsize,
    apply: fn(&mut T, O) -> R,
}

struct Record<O, R> {
    state: AtomicU32,
    operation: UnsafeCell<Option<O>>,
    result: UnsafeCell<Option<R>>,
}

// SAFETY: only the holder of the lock accesses the object. A record is accessed by its owner while
// it is EMPTY or DONE, and by the holder of the lock while it is PUBLISHED.
unsafe impl<T: Send, O: Send, R: Send> Sync for FlatCombining<T, O, R> {}

/// A thread's record.
pub struct Place(usize);

impl<T, O, R> FlatCombining<T, O, R> {
    /// Makes one for that many threads.
    pub fn new(threads: usize, object: T, apply: fn(&mut T, O) -> R) -> Self {
        let record = || {
            CachePadded::new(Record {
                state: AtomicU32::new(EMPTY),
                operation: UnsafeCell::new(None),
                result: UnsafeCell::new(None),
            })
        };
        Self {
            is_locked: CachePadded::default(),
            object: UnsafeCell::new(object),
            records: (0..threads).map(|_| record()).collect(),
            owned: AtomicUsize::new(0),
            apply,
        }
    }

    /// Gives a thread its record.
    ///
    /// # Panics
    ///
    /// If all have one.
    #[track_caller]
    pub fn place(&self) -> Place {
        let place = self.owned.fetch_add(1, Ordering::Relaxed);
        assert!(place < self.records.len(), "each thread has one record");
        Place(place)
    }

    /// Carries out an operation.
    #[inline(always)]
    pub fn run(&self, place: &mut Place, operation: O) -> R {
        let record = &self.records[place.0];
        // SAFETY: the record is EMPTY, and `place` is its owner's alone.
        unsafe { *record.operation.get() = Some(operation) };
        // Release: pairs with the combiner's Acquire.
        record.state.store(PUBLISHED, Ordering::Release);
        let mut spins = 0;
        loop {
            // Acquire: pairs with the combiner's Release.
            if record.state.load(Ordering::Acquire) == DONE {
                record.state.store(EMPTY, Ordering::Relaxed);
                // SAFETY: the record was DONE, so the combiner has left it.
                let result = unsafe { (*record.result.get()).take() };
                return result.expect("a combiner stores the result first");
            }
            if self.try_lock() {
                for _ in 0..PASSES {
                    self.combine();
                }
                // Release: pairs with the Acquire in `try_lock`.
                self.is_locked.store(false, Ordering::Release);
                continue;
            }
            spins += 1;
            match spins % SPINS {
                0 => thread::yield_now(),
                _ => spin_loop(),
            }
        }
    }

    /// Looks at the object.
    pub fn look<V>(&self, look: impl FnOnce(&T) -> V) -> V {
        while !self.try_lock() {
            thread::yield_now();
        }
        // SAFETY: this thread holds the lock.
        let value = look(unsafe { &*self.object.get() });
        self.is_locked.store(false, Ordering::Release);
        value
    }

    fn try_lock(&self) -> bool {
        // Acquire: pairs with the Release of the last combiner.
        !self.is_locked.load(Ordering::Relaxed) && !self.is_locked.swap(true, Ordering::Acquire)
    }

    fn combine(&self) {
        // SAFETY: this thread holds the lock.
        let object = unsafe { &mut *self.object.get() };
        for record in &self.records {
            // Acquire: pairs with the Release of the owner.
            if record.state.load(Ordering::Acquire) != PUBLISHED {
                continue;
            }
            // SAFETY: a PUBLISHED record is the combiner's.
            let operation = unsafe { (*record.operation.get()).take() };
            let operation = operation.expect("an owner stores the operation first");
            // SAFETY: a PUBLISHED record is the combiner's.
            unsafe { *record.result.get() = Some((self.apply)(object, operation)) };
            record.state.store(DONE, Ordering::Release);
        }
    }
}
