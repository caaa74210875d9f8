//! Mappings that the system would not take back, kept for later ones of their size.
//!
//! A process at its limit of mappings cannot give every mapping back, and a sandbox may refuse the call. What stays is kept without the
//! memory behind it, but for a page, in a list for each size. Sizes are rounded, so there are few: a program that drops
//! what it makes takes no more addresses than it had in use at one time of each rounded size.
//!
//! ```text
//! heads[size]: newest ──> older ──> …      link, size: in the mapping's first words
//! ```
//!
//! Any thread may put a mapping at the head, by one compare-and-swap that waits for no other thread. Only the holder of the lock takes one, so
//! the mapping whose link it reads is there, and a head that has not changed still leads to it. A thread that is in a hurry
//! does without if another one holds the lock. Nothing but a few loads and the exchange happens under the lock, as signals are blocked
//! then: a system call that a sandbox answers by one would end the process.

use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use super::lock::{lock, try_lock, unlock};
use crate::platform;

/// What rounded sizes are multiples of: the smallest page there is.
const UNIT: usize = 4096;

/// From eight units on, so many sizes to a doubling: no mapping is larger than asked for by more than an eighth.
const TO_A_DOUBLING: usize = 8;

/// How many sizes there are, the smallest of fewer than eight units included.
const SIZES: usize =
    TO_A_DOUBLING * (usize::BITS - UNIT.ilog2() - TO_A_DOUBLING.ilog2() + 1) as usize;

/// By how many bits a number of units is rounded.
fn shift(units: usize) -> u32 {
    let log = units.checked_ilog2().unwrap_or(0);
    log.saturating_sub(TO_A_DOUBLING.ilog2())
}

/// The size of a mapping of at least so many bytes; one that no system has, if there is no such size.
pub(super) fn rounded(bytes: usize) -> usize {
    let units = bytes.div_ceil(UNIT);
    let rounded = units.checked_next_multiple_of(1 << shift(units));
    let rounded = rounded.and_then(|units| units.checked_mul(UNIT));
    rounded.unwrap_or(usize::MAX)
}

/// The number of a rounded size.
fn index(bytes: usize) -> usize {
    let units = bytes / UNIT;
    TO_A_DOUBLING * shift(units) as usize + (units >> shift(units))
}

/// What the first words of a kept mapping say.
struct Mapping {
    next: *mut Mapping,
    bytes: usize,
    /// Is all behind this zero?
    is_discarded: bool,
}

/// How many mappings one call offers to the system.
const OFFERS: usize = 4;

#[cfg(test)]
thread_local! {
    /// What this thread does the next time that it has read a link and not yet exchanged the head.
    static BETWEEN: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
}

pub(super) static KEPT: Kept = Kept::new();

pub(super) struct Kept {
    /// The newest of each size.
    heads: [AtomicPtr<Mapping>; SIZES],
    /// How many there are at most, to know quickly when there are none.
    count: AtomicUsize,
    /// Where the search for one to offer begins.
    next_offer: AtomicUsize,
    lock: AtomicU32,
}

impl Kept {
    const fn new() -> Kept {
        Kept {
            heads: [const { AtomicPtr::new(null_mut()) }; SIZES],
            count: AtomicUsize::new(0),
            next_offer: AtomicUsize::new(0),
            lock: AtomicU32::new(0),
        }
    }

    /// Keeps a mapping, without the memory behind it. Waits for no other thread.
    ///
    /// # Safety
    ///
    /// A mapping of this rounded size, which nothing uses any more.
    pub unsafe fn put(&self, start: NonNull<u8>, bytes: usize) {
        let mapping = start.cast::<Mapping>();
        // SAFETY: the caller's promise; a page has room for the words, and is aligned for them.
        unsafe {
            let is_discarded = platform::discard(start, bytes);
            mapping.write(Mapping {
                next: null_mut(),
                bytes,
                is_discarded,
            });
            self.push(mapping);
        }
    }

    /// # Safety
    ///
    /// A mapping with its words, which is in no list, and which nothing uses.
    unsafe fn push(&self, mapping: NonNull<Mapping>) {
        // Relaxed: a hint. Before it is in a list, so that no count is too low.
        self.count.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise: until the exchange this thread alone has the mapping.
        let head = &self.heads[index(unsafe { mapping.as_ref() }.bytes)];
        let mut first = head.load(Ordering::Relaxed);
        loop {
            // SAFETY: as above.
            unsafe { (*mapping.as_ptr()).next = first };
            // Release: pairs with the Acquires in `pop`.
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            match head.compare_exchange_weak(first, mapping.as_ptr(), success, failure) {
                Ok(_) => return,
                Err(newer) => first = newer,
            }
        }
    }

    /// Takes the newest mapping of a size out of its list.
    fn pop(&self, index: usize, waits: bool) -> Option<NonNull<Mapping>> {
        let head = &self.heads[index];
        // Relaxed: read again below.
        if head.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let _quiet = platform::Quiet::enter();
        if waits {
            // Where a fork has left the lock behind, the lists are whole all the same.
            lock(&self.lock);
        } else if !try_lock(&self.lock) {
            return None;
        }
        // Acquire, twice: pairs with the Release in `push`. Every change of the head is an exchange, so it passes on
        // what was released by those before.
        let mut first = head.load(Ordering::Acquire);
        while let Some(mapping) = NonNull::new(first) {
            // SAFETY: in the list, and so there: only the holder of the lock takes mappings out, which is this thread.
            let next = unsafe { mapping.as_ref() }.next;
            #[cfg(test)]
            BETWEEN.take().into_iter().for_each(|intervene| intervene());
            let (success, failure) = (Ordering::Acquire, Ordering::Acquire);
            match head.compare_exchange_weak(first, next, success, failure) {
                Ok(_) => break,
                Err(newer) => first = newer,
            }
        }
        unlock(&self.lock);
        let taken = NonNull::new(first)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(taken)
    }

    /// Takes a mapping of this rounded size, zeroed, if one is kept.
    pub fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.pop(index(bytes), true).map(zeroed)
    }

    /// The same, or nothing while another thread holds the lock.
    pub fn try_take(&self, bytes: usize) -> Option<NonNull<u8>> {
        self.pop(index(bytes), false).map(zeroed)
    }

    /// Offers a few to the system again, until it refuses one. Waits for no other thread.
    pub fn offer(&self) {
        for _ in 0..OFFERS {
            // Relaxed, all of these: hints.
            if self.count.load(Ordering::Relaxed) == 0 {
                return;
            }
            let from = self.next_offer.load(Ordering::Relaxed);
            let mut indices = (from..SIZES).chain(0..from);
            let is_kept = |index: &usize| !self.heads[*index].load(Ordering::Relaxed).is_null();
            let Some(index) = indices.find(is_kept) else {
                return;
            };
            self.next_offer
                .store((index + 1) % SIZES, Ordering::Relaxed);
            let Some(mapping) = self.pop(index, false) else {
                return;
            };
            // SAFETY: taken out, and so this thread's alone. Refused, it stays as it is.
            unsafe {
                let bytes = mapping.as_ref().bytes;
                if !platform::unmap(mapping.cast(), bytes) {
                    self.push(mapping);
                    return;
                }
            }
        }
    }
}

/// A mapping that was just taken out, as the system gives new ones.
fn zeroed(mapping: NonNull<Mapping>) -> NonNull<u8> {
    // SAFETY: taken out, and so this thread's alone; its words are still there.
    unsafe {
        let dirty = match mapping.as_ref().is_discarded {
            true => size_of::<Mapping>(),
            false => mapping.as_ref().bytes,
        };
        mapping.cast::<u8>().write_bytes(0, dirty);
    }
    mapping.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_few_and_close() {
        let near = |log: u32| [-1, 0, 1].map(|more| (1usize << log).saturating_add_signed(more));
        let mut sizes: Vec<_> = (12..usize::BITS - 1).flat_map(near).collect();
        sizes.extend((1..2000).map(|kilobytes| kilobytes << 10));
        sizes.sort_unstable();
        for &bytes in &sizes {
            let size = rounded(bytes);
            assert!(size >= bytes && size - bytes < UNIT + bytes / TO_A_DOUBLING);
            assert_eq!(rounded(size), size);
        }
        assert!(sizes.windows(2).all(|two| {
            let [one, other] = [two[0], two[1]].map(rounded);
            (one < other) == (index(one) < index(other))
        }));
        assert_eq!((rounded(0), index(0)), (0, 0));
        assert_eq!(rounded(usize::MAX), usize::MAX);
        assert_eq!(index(usize::MAX), SIZES - 1);
    }

    #[test]
    fn what_is_kept_is_taken_again_zeroed_or_unmapped() {
        let sizes = [8192, 20_000, 8192, 40_000].map(rounded);
        let lists = Kept::new();
        for is_discarded in [true, false] {
            let kept = sizes.map(|bytes| {
                let start = platform::map(bytes).unwrap();
                // SAFETY: just mapped, and nobody else's.
                unsafe {
                    start.write_bytes(7, bytes);
                    lists.put(start, bytes);
                    if !is_discarded {
                        // As where the program has locked memory.
                        let words = size_of::<Mapping>();
                        start.cast::<Mapping>().as_mut().is_discarded = false;
                        start.add(words).write_bytes(7, bytes - words);
                    }
                }
                start
            });
            assert_eq!(lists.take(rounded(8193)), None);
            for (index, waits) in [(2, true), (1, false), (0, false)] {
                let bytes = sizes[index];
                let taken = match waits {
                    true => lists.take(bytes),
                    false => lists.try_take(bytes),
                };
                assert_eq!(taken, Some(kept[index]));
                // SAFETY: taken, and so this test's.
                let words = unsafe { std::slice::from_raw_parts(kept[index].as_ptr(), bytes) };
                assert!(words.iter().all(|byte| *byte == 0));
                // SAFETY: as above.
                assert!(unsafe { platform::unmap(kept[index], bytes) });
            }
            assert_eq!(lists.take(sizes[0]), None);
            lists.offer();
            assert_eq!(lists.take(sizes[3]), None);
            assert_eq!(lists.count.load(Ordering::Relaxed), 0);
        }
    }

    /// A thread stands still where it has read the link of the newest and not yet taken it out.
    #[test]
    fn while_one_is_taken_others_are_put_and_none_is_taken() {
        static LISTS: Kept = Kept::new();
        fn put() -> NonNull<u8> {
            let start = platform::map(rounded(1)).unwrap();
            // SAFETY: just mapped, and nobody else's.
            unsafe { LISTS.put(start, rounded(1)) };
            start
        }
        fn intervene() {
            assert_eq!(LISTS.try_take(rounded(1)), None);
            LISTS.offer();
            put();
            assert_eq!(LISTS.count.load(Ordering::Relaxed), 3);
        }
        let [first, second] = [put(), put()];
        BETWEEN.set(Some(intervene));
        let third = LISTS.take(rounded(1)).unwrap();
        assert!(third != first && third != second, "the newest");
        assert_eq!(LISTS.try_take(rounded(1)), Some(second));
        assert_eq!(LISTS.take(rounded(1)), Some(first));
        assert_eq!(LISTS.take(rounded(1)), None);
        for start in [first, second, third] {
            // SAFETY: taken, and so this test's.
            assert!(unsafe { platform::unmap(start, rounded(1)) });
        }
    }
}
