//! Many counters in one area.
//!
//! ```text
//! Counters -> Chunk -> Chunk -> …          each with an area:
//!
//!              -2 baselines          -1 slow path          0 CPU 0
//!   +----------+------------+--------+------------+--------+------------+--    a word of each bulk
//!   |  guard   | w0 w1 …    | guard  | w0 w1 …    | slot   | w0 w1 …    | …    region is one
//!   +----------+------------+--------+------------+--------+------------+--    counter's
//! ```
//!
//! A bit for each word says whether a [`Count`] and its clones own it; a number counts them. An
//! owner adds and drains as a [`Counter`](super::Counter) does. A word is never zeroed: the next
//! owner moves the baseline. Chunks are only added, and freed together.

use std::ptr::{NonNull, null_mut, with_exposed_provenance};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

use super::area::{Area, started};
use super::baseline;
use super::error::Error;
use super::memory;
use crate::growth::Growth;
use crate::or_panic::OrPanic;
use crate::platform;

const VALUES: usize = Area::BULK;

crate::sequence! {
    /// Adds to the word at byte offset `offset`, wrapping around.
    unsafe fn add(slot: Slot, offset: Word, amount: Word) {
        let word = slot + offset + VALUES;
        let value = load(word);
        commit(word, value + amount);
    }
}

/// The sequences of this file, for the checkers in `verify/`.
#[cfg(feature = "unstable-internals")]
pub(super) const SEQUENCES: &[&crate::sequence::model::Program] = &[&add::MODEL];

/// The guards that hold the slow path's words, and the baselines.
const OVERFLOW: isize = -1;
const DRAINED: isize = -2;

/// The number of words with the bits of a chunk.
const BITS: usize = 15;

/// The number of counters in the first chunk. With two CPUs, it shares pages.
const FIRST: usize = 48;

/// The number of counters in every other chunk: with its slot, a CPU's part is 61 or 31 times 128
/// bytes.
const LATER: usize = BITS * usize::BITS as usize;

/// A growing number of counters in 8 bytes per CPU each, as for a metric with labels.
///
/// Scope `SameCpu`. [`create`](Counters::create) hands out one counter after the other, and a
/// [`Count`] that is dropped, with all its clones, makes room for another one. Memory is mapped for
/// 48 counters, then for 960 at a time, and stays until the set is dropped: for each counter 8
/// bytes per CPU and 20 shared ones. See [the module](super) for what all per-CPU structures share.
///
/// ```
/// use std::collections::HashMap;
///
/// use atomseq::percpu::{Count, Counters};
///
/// static REQUESTS: Counters = Counters::new();
///
/// let by_method: HashMap<&str, Count> = ["get", "put", "delete"]
///     .map(|method| (method, REQUESTS.create()))
///     .into();
/// by_method["get"].add(3);
/// assert_eq!(by_method["get"].sum(), 3);
/// assert_eq!(by_method["put"].sum(), 0);
/// ```
pub struct Counters {
    first: AtomicPtr<Chunk>,
    growth: Growth,
}

/// Some counters, and the next chunk. Behind it in memory, for each word the number of its clones.
struct Chunk {
    area: Area,
    /// A bit is set for each word that is owned, or that is beyond the number of counters.
    owned: [AtomicUsize; BITS],
    next: AtomicPtr<Chunk>,
}

/// One of the [`Counters`]. A clone refers to the same one.
///
/// Wait-free, but [`take`](Count::take), which is lock-free. An addition costs no atomic
/// instruction on the fast path and one on the slow path. Every operation may be called in a signal
/// handler. A clone costs one atomic instruction, dropping it one, and dropping the last one
/// another.
pub struct Count<'a> {
    chunk: &'a Chunk,
    /// The byte offset of its word in the bulk memory of each CPU and guard.
    offset: usize,
}

impl Counters {
    /// Creates an empty set of counters.
    pub const fn new() -> Counters {
        Counters {
            first: AtomicPtr::new(null_mut()),
            growth: Growth::new(),
        }
    }

    /// Returns a new counter at zero.
    ///
    /// # Panics
    ///
    /// If [`try_create`](Counters::try_create) fails.
    #[track_caller]
    pub fn create(&self) -> Count<'_> {
        self.try_create().or_panic()
    }

    /// Returns a new counter at zero.
    ///
    /// Lock-free. Costs a load for each 64 counters (32 on 32-bit targets), one load per possible
    /// CPU, and two atomic instructions. Maps memory if all words are owned, for which it may wait
    /// as the first recording of a [`Histogram`](super::Histogram) does.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] if the operating system refuses the memory, [`Error::StartingUp`]
    /// during start-up.
    pub fn try_create(&self) -> Result<Count<'_>, Error> {
        started()?;
        let found = self
            .growth
            .find_or_grow(|| self.claim(), || self.claim_in_new_chunk());
        found.ok_or(Error::OutOfMemory)
    }

    /// Maps memory for the first 48 counters, unless that has been done, and starts atomseq if it
    /// has not been started. Creates no counter.
    ///
    /// [`create`](Counters::create) does the same. In a signal handler that is safe only if atomseq
    /// has been started, because start-up may allocate.
    ///
    /// # Errors
    ///
    /// Those of [`try_create`](Counters::try_create).
    pub fn prepare(&self) -> Result<(), Error> {
        started()?;
        let first = || Chunk::at(&self.first);
        let map = || {
            let new = Chunk::create(FIRST, 0)?;
            // SAFETY: `create` returned it, and no other thread has seen it.
            unsafe { Chunk::publish(new, &self.first) }.or_else(first)
        };
        let mapped = self.growth.find_or_grow(first, map);
        mapped.map(drop).ok_or(Error::OutOfMemory)
    }

    /// Returns the number of counters that are in use.
    pub fn len(&self) -> usize {
        let owned = |chunk: &Chunk| {
            let bits = chunk.owned.iter();
            // Relaxed: the number orders nothing.
            let owned = bits.map(|bits| bits.load(Ordering::Relaxed).count_ones() as usize);
            owned.sum::<usize>() - (LATER - chunk.capacity())
        };
        self.chunks().map(owned).sum()
    }

    /// Returns whether no counter is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Claims a word that no [`Count`] owns.
    fn claim(&self) -> Option<Count<'_>> {
        let count = self.chunks().find_map(Chunk::claim)?;
        // What earlier owners added. They added before they released the word, and that this thread
        // has seen.
        count.take();
        Some(count)
    }

    /// Adds a chunk, one word of which is claimed. `None` if the system refuses the memory.
    #[cold]
    fn claim_in_new_chunk(&self) -> Option<Count<'_>> {
        loop {
            let mut link = &self.first;
            let mut capacity = FIRST;
            while let Some(chunk) = Chunk::at(link) {
                link = &chunk.next;
                capacity = LATER;
            }
            // Word 0 is claimed before any other thread sees the chunk, because they may claim all
            // others before this thread continues.
            let new = Chunk::create(capacity, 1)?;
            // SAFETY: `create` returned it, and no other thread has seen it.
            if let Some(chunk) = unsafe { Chunk::publish(new, link) } {
                return Some(Count { chunk, offset: 0 });
            }
            // A handler, or a thread that took the turn over, published another chunk first.
            if let Some(count) = self.claim() {
                return Some(count);
            }
        }
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        let first = Chunk::at(&self.first);
        std::iter::successors(first, |chunk| Chunk::at(&chunk.next))
    }
}

impl Chunk {
    /// Returns a new chunk whose first `claimed` words are owned. `None` if the system refuses the
    /// memory.
    fn create(capacity: usize, claimed: usize) -> Option<NonNull<Chunk>> {
        let area = Area::ungated(capacity * 8).ok()?;
        let mut owned = [const { AtomicUsize::new(usize::MAX) }; BITS];
        for word in claimed..capacity {
            let (index, bit) = place(word);
            *owned[index].get_mut() &= !bit;
        }
        let chunk = memory::allocate(bytes(capacity))?.cast::<Chunk>();
        // For `clones`.
        let _exposed = chunk.as_ptr().expose_provenance();
        // SAFETY: the memory is new, has the size of a chunk and more, and is aligned to 128 bytes.
        unsafe {
            chunk.write(Chunk {
                area,
                owned,
                next: AtomicPtr::new(null_mut()),
            });
        }
        Some(chunk)
    }

    /// Adds a chunk to a set that the caller has borrowed, and returns it. Frees it and returns
    /// `None` if the link is no longer null.
    ///
    /// # Safety
    ///
    /// `create` returned the chunk, and no other thread has seen it.
    unsafe fn publish(new: NonNull<Chunk>, link: &AtomicPtr<Chunk>) -> Option<&Chunk> {
        // Release: pairs with the Acquire in `Chunk::at`. Relaxed: `Chunk::at` finds the chunk of
        // another thread.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let linked = link.compare_exchange(null_mut(), new.as_ptr(), success, failure);
        if linked.is_err() {
            // SAFETY: the caller guarantees that `create` returned it. It was not published, so
            // nothing refers to it.
            unsafe { Chunk::free(new) };
            return None;
        }
        // SAFETY: it stays until the set is dropped. The set is borrowed as long as its link is.
        Some(unsafe { new.as_ref() })
    }

    /// # Safety
    ///
    /// `create` returned the chunk, and no reference to it is left.
    unsafe fn free(chunk: NonNull<Chunk>) {
        // SAFETY: the caller guarantees a chunk that `create` wrote and nothing refers to.
        unsafe {
            let bytes = bytes(chunk.as_ref().capacity());
            chunk.drop_in_place();
            memory::free(chunk.cast(), bytes);
        }
    }

    /// Returns the chunk behind a link of a set that the caller has borrowed.
    fn at(link: &AtomicPtr<Chunk>) -> Option<&Chunk> {
        // Acquire: pairs with the Release that links a chunk.
        let chunk = link.load(Ordering::Acquire);
        // SAFETY: it is null, or a chunk that stays until the set is dropped. The set is borrowed
        // as long as its links are.
        unsafe { chunk.as_ref() }
    }

    /// Returns the number of counters.
    fn capacity(&self) -> usize {
        match self.area.bulk_bytes() / 8 {
            FIRST => FIRST,
            _ => LATER,
        }
    }

    /// Returns the number of clones of each counter, less one.
    fn clones(&self, word: usize) -> &AtomicU32 {
        assert!(word < self.capacity());
        // The provenance of `self` does not cover what is behind the chunk, so this uses the
        // exposed one.
        let behind = (&raw const *self).wrapping_add(1).addr();
        let clones = with_exposed_provenance::<AtomicU32>(behind);
        // SAFETY: `create` has allocated, behind the chunk, zeros for as many numbers as it has
        // counters. They are only accessed atomically, and stay as long as the chunk.
        unsafe { &*clones.add(word) }
    }

    fn claim(&self) -> Option<Count<'_>> {
        let owned = self.owned.iter().enumerate();
        owned.into_iter().find_map(|(index, owned)| {
            loop {
                // Relaxed: a hint; the exchange below decides.
                let bit = (!owned.load(Ordering::Relaxed)).trailing_zeros();
                let bit = 1_usize.checked_shl(bit)?;
                // Acquire: pairs with the Release of the drop that has cleared the bit.
                if owned.fetch_or(bit, Ordering::Acquire) & bit == 0 {
                    let word = index * usize::BITS as usize + bit.trailing_zeros() as usize;
                    return Some(Count {
                        chunk: self,
                        offset: word * 8,
                    });
                }
            }
        })
    }
}

/// Returns the size of a chunk, with what lies behind it.
fn bytes(capacity: usize) -> usize {
    size_of::<Chunk>() + capacity * size_of::<AtomicU32>()
}

/// Returns the index of the bits that contain a counter's, and its bit.
fn place(word: usize) -> (usize, usize) {
    let bits = usize::BITS as usize;
    (word / bits, 1 << (word % bits))
}

impl Count<'_> {
    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`, wrapping around at 2^64 (at 2^32 on 32-bit targets).
    #[inline]
    pub fn add(&self, amount: u64) {
        let slots = self.chunk.area.slots();
        // SAFETY: the offset lies in the bulk of a CPU or a guard. The area outlives the call, and
        // only this sequence writes a CPU's words.
        if unsafe { add::on_cpu(slots, self.offset, amount as usize) }.is_err() {
            self.add_slowly(amount);
        }
    }

    #[cold]
    fn add_slowly(&self, amount: u64) {
        platform::register_this_thread();
        // Relaxed: the word is an independent sum that orders nothing.
        self.word(OVERFLOW)
            .fetch_add(amount as usize, Ordering::Relaxed);
    }

    /// Returns the sum of all additions since the counter was created, or since the last
    /// [`take`](Count::take), as [`Counter::sum`](super::Counter::sum).
    pub fn sum(&self) -> u64 {
        baseline::since(self.word(DRAINED), || self.total()) as u64
    }

    /// Returns the sum and starts again at zero. Every addition is in exactly one of the sums
    /// taken.
    ///
    /// Lock-free. Costs one load per possible CPU and one atomic instruction per attempt.
    pub fn take(&self) -> u64 {
        baseline::drain(self.word(DRAINED), || self.total()) as u64
    }

    fn total(&self) -> usize {
        (OVERFLOW..self.chunk.area.cpus() as isize)
            // Relaxed: the word is an independent sum; `baseline` adds the ordering that it needs.
            .map(|index| self.word(index).load(Ordering::Relaxed))
            .fold(0, usize::wrapping_add)
    }

    /// Returns this counter's word of a CPU or a guard.
    fn word(&self, index: isize) -> &AtomicUsize {
        let bulk = self.chunk.area.bulk_at(index);
        // SAFETY: `Chunk::claim` found the word below the capacity, so it lies in the bulk, which
        // is aligned, zero-initialized and valid as long as the chunk.
        unsafe { AtomicUsize::from_ptr(bulk.add(self.offset).as_ptr().cast()) }
    }
}

impl Clone for Count<'_> {
    /// # Panics
    ///
    /// If there are 2^31 clones, since more could overflow their number.
    #[track_caller]
    fn clone(&self) -> Self {
        let clones = self.chunk.clones(self.offset / 8);
        // Relaxed: the caller has one, so none is the last.
        if clones.fetch_add(1, Ordering::Relaxed) >= 1 << 31 {
            clones.fetch_sub(1, Ordering::Relaxed);
            panic!("a counter has at most 2^31 clones");
        }
        Count { ..*self }
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        let word = self.offset / 8;
        let clones = self.chunk.clones(word);
        // Release: pairs with the fence below, so the last one to be dropped comes after all that
        // the others have added. The number of the last one is 0, and becomes 0 again.
        if clones.fetch_sub(1, Ordering::Release) != 0 {
            return;
        }
        clones.store(0, Ordering::Relaxed);
        fence(Ordering::Acquire);
        let (index, bit) = place(word);
        // Release: pairs with the Acquire in `Chunk::claim`, so the next owner sees all that this
        // one has added.
        self.chunk.owned[index].fetch_and(!bit, Ordering::Release);
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        let mut next = *self.first.get_mut();
        while let Some(chunk) = NonNull::new(next) {
            // SAFETY: `create` returned the chunk. No `Count` is left, since each borrows the set,
            // and the link to it is not used any more.
            unsafe {
                next = *(*chunk.as_ptr()).next.get_mut();
                Chunk::free(chunk);
            }
        }
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new()
    }
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters")
            .field("len", &self.len())
            .finish()
    }
}

impl std::fmt::Debug for Count<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Count").field("sum", &self.sum()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn counters_are_independent_and_exact() {
        static COUNTERS: Counters = Counters::new();
        let counts: Vec<Count> = (0..2500).map(|_| COUNTERS.create()).collect();
        assert_eq!(COUNTERS.len(), 2500);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20 {
                        for (number, count) in counts.iter().enumerate() {
                            count.add((number + round) as u64);
                        }
                    }
                });
            }
        });
        for (number, count) in counts.iter().enumerate() {
            assert_eq!(count.sum(), 4 * (20 * number as u64 + 190), "{number}");
        }
        drop(counts);
        assert!(COUNTERS.is_empty());
    }

    #[test]
    fn a_word_is_used_again_from_zero() {
        let counters = Counters::new();
        assert_eq!((counters.len(), counters.chunks().count()), (0, 0));
        counters.prepare().unwrap();
        assert_eq!((counters.len(), counters.chunks().count()), (0, 1));
        let mut kept: Vec<Count> = (0..FIRST).map(|_| counters.create()).collect();
        assert_eq!(counters.chunks().count(), 1, "the first chunk is full");
        for round in 0..3 * FIRST {
            let place = round % FIRST;
            let old = kept.swap_remove(place);
            old.add(u64::MAX - round as u64);
            let offset = old.offset;
            drop(old);
            let new = counters.create();
            assert_eq!((new.offset, new.sum()), (offset, 0));
            new.increment();
            assert_eq!((new.sum(), new.take(), new.sum()), (1, 1, 0));
            kept.push(new);
        }
        kept.push(counters.create());
        assert_eq!((kept.len(), counters.len()), (FIRST + 1, FIRST + 1));
        assert_eq!(counters.chunks().count(), 2);
    }

    #[test]
    fn clones_are_one_counter_until_the_last_is_dropped() {
        let counters = Counters::new();
        let count = counters.create();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut own = count.clone();
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        own.increment();
                        own = own.clone();
                    }
                });
            }
        });
        assert_eq!((count.sum(), counters.len()), (40_000, 1));
        let last = count.clone();
        drop(count);
        last.increment();
        assert_eq!((last.take(), counters.len()), (40_001, 1));
        drop(last);
        assert!(counters.is_empty());
        // No number of clones is left behind.
        let again = counters.create();
        assert_eq!((again.offset, again.sum()), (0, 0));
        drop(again.clone());
        assert_eq!(counters.len(), 1);
    }

    #[test]
    fn no_two_owners_share_a_word() {
        let counters = Counters::new();
        let sums = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let counters = &counters;
                    scope.spawn(move || {
                        let mut kept = Vec::new();
                        for round in 0..3000_usize {
                            let count = counters.create();
                            assert_eq!(count.sum(), 0, "another owner has added");
                            count.add(thread + 1);
                            kept.push(count);
                            if round % 3 != 0 {
                                let dropped = kept.swap_remove(round * 7 % kept.len());
                                assert_eq!(dropped.sum(), thread + 1);
                            }
                        }
                        kept
                    })
                })
                .collect();
            let kept = threads.into_iter().map(|thread| thread.join().unwrap());
            let kept: Vec<Count> = kept.flatten().collect();
            assert_eq!((kept.len(), counters.len()), (4000, 4000));
            kept.iter().map(Count::sum).sum::<u64>()
        });
        assert_eq!(sums, 1000 * (1 + 2 + 3 + 4));
        assert!(counters.is_empty());
    }

    /// Another thread may take every other word of a chunk as soon as it is published.
    #[test]
    fn a_chunk_is_published_with_the_word_of_the_thread_that_mapped_it() {
        let rounds = if cfg!(miri) { 20 } else { 300 };
        for _ in 0..rounds {
            let counters = Counters::new();
            let is_watched = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let seen = scope.spawn(|| {
                    is_watched.store(true, Ordering::Relaxed);
                    loop {
                        if let Some(first) = counters.chunks().next() {
                            return first.owned[0].load(Ordering::Relaxed) & 1;
                        }
                        std::hint::spin_loop();
                    }
                });
                while !is_watched.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                let count = counters.create();
                assert_eq!(seen.join().unwrap(), 1, "the word was free");
                assert_eq!((count.offset, counters.len()), (0, 1));
            });
        }
    }

    #[test]
    fn a_set_is_prepared_once_and_without_a_counter() {
        let counters = Counters::new();
        counters.prepare().unwrap();
        let kept: Vec<Count> = (0..FIRST).map(|_| counters.create()).collect();
        counters.prepare().unwrap();
        assert_eq!((kept.len(), counters.chunks().count()), (FIRST, 1));
        drop(kept);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    counters.prepare().unwrap();
                }
            });
            let readings = if cfg!(miri) { 100 } else { 50_000 };
            let in_use = (0..readings).map(|_| counters.len()).max();
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(in_use, Some(0), "no counter was created");
        });
    }
}
