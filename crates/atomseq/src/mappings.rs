//! Mappings from the system, and those that it would not take back, kept for later ones of their
//! size.
//!
//! Everything that maps memory again and again does it here.
//!
//! A process at its limit of mappings cannot give every mapping back, and a sandbox may refuse the
//! call. What stays is kept without the memory behind it. Sizes are rounded, so there are few.
//!
//! ```text
//! sizes[index]:  slots  [ mapping | - | mapping | mapping ]     a mapping: its address; 1 is added if it may hold other than zeros
//!                newest ──> table: slots [ - | … | mapping ]    a table: the first bytes of a mapping that found no slot
//!                           older ──> table … ──> null
//! ```
//!
//! A thread takes a mapping by exchanging a slot for null, and puts one by exchanging null for it.
//! So a mapping belongs to one thread or to one slot at any time. No thread follows an address that
//! it has not taken, and none holds a lock: a thread, or a handler, that stops between two steps
//! keeps nothing from the others but the mapping in its hands.
//!
//! Invariants, of each size:
//!
//! 1. `kept`, of a size and of a table, is never less than the number of mappings in the slots and
//!    in the hands of threads that look for a free slot there. A thread adds 1 before it looks, to
//!    the size and then to a table, and subtracts 1 after it has emptied a slot, from the table and
//!    then from the size.
//! 2. A thread looks for a free slot only if there are at least as many slots, of the size and in
//!    the table, as `kept` was after its addition. So one is free for it as long as it looks.
//! 3. A mapping becomes a table only if more are kept, put and taken at that time than there are
//!    slots. A table stays one.
//! 4. All threads look for a mapping in the same order: the size's own slots, the newest table's,
//!    those of older tables. A thread that leaves out a new table has passed the size's own slots
//!    while that did not exist.
//!
//! From 4 follows that no more is mapped than is needed. Let *needed* be the most mappings that
//! were in use or in the hands of threads at one time; a thread that makes or drops something needs
//! one from its beginning to its end. Imagine those that were needed and not yet mapped behind the
//! last slot. Then at least as many mappings lie before a thread that looks for one as there are
//! threads which look from there on: when it starts, because all that are not needed elsewhere are
//! in slots or behind them; later, because it passes empty slots only, and each other thread that
//! takes a mapping which lies before it looks no further. So a thread comes to the end, and maps a
//! new one, only if one lies there. Tables are beyond that: one where more than 14 were kept, and
//! one more for each further 509.

use std::iter;
use std::ptr::{self, NonNull, null_mut};

use crate::platform;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

/// What rounded sizes are multiples of: the smallest page there is.
const UNIT: usize = 4096;

/// From eight units on, so many sizes to a doubling: no mapping is larger than asked for by more
/// than an eighth.
const TO_A_DOUBLING: usize = 8;

/// How many sizes there are, the smallest of fewer than eight units included.
const SIZES: usize =
    TO_A_DOUBLING * (usize::BITS - UNIT.ilog2() - TO_A_DOUBLING.ilog2() + 1) as usize;

/// By how many bits a number of units is rounded.
fn shift(units: usize) -> u32 {
    let log = units.checked_ilog2().unwrap_or(0);
    log.saturating_sub(TO_A_DOUBLING.ilog2())
}

/// The size of a mapping of at least so many bytes; one that no system has, if there is no such
/// size.
fn rounded(bytes: usize) -> usize {
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

/// The rounded size of that number.
fn size_at(index: usize) -> usize {
    let doublings = (index / TO_A_DOUBLING).saturating_sub(1);
    ((index - TO_A_DOUBLING * doublings) * UNIT) << doublings
}

/// What a slot holds: null, or the address of a mapping.
type Slot = AtomicPtr<u8>;

/// Added to the address of a mapping that may hold other than zeros.
const DIRTY: usize = 1;

/// How many slots a size has for a start: with them, it takes 128 bytes.
const FIRST_SLOTS: usize = 14;

/// How many a table has: with them, it takes the smallest page there is, or less.
const TABLE_SLOTS: usize = 509;

/// A kept mapping that holds the addresses of others from now on.
struct Table {
    older: Option<&'static Table>,
    /// How many slots there are, in here, in older ones and in the size itself.
    room: usize,
    /// How many mappings are kept in here, at least.
    kept: AtomicUsize,
    slots: [Slot; TABLE_SLOTS],
}

/// Puts a mapping into one of these slots, if it finds one free.
fn put(slots: &[Slot], mapping: NonNull<u8>) -> bool {
    slots.iter().any(|slot| {
        slot.compare_exchange(null_mut(), mapping.as_ptr(), SeqCst, SeqCst)
            .is_ok()
    })
}

/// Takes a mapping out of one of these slots, if it finds one.
fn take(slots: &[Slot]) -> Option<NonNull<u8>> {
    slots.iter().find_map(|slot| {
        // Only a slot that holds one is written to.
        let _seen = NonNull::new(slot.load(SeqCst))?;
        NonNull::new(slot.swap(null_mut(), SeqCst))
    })
}

impl Table {
    /// `false`: as many are kept here as there are slots.
    fn put(&self, mapping: NonNull<u8>) -> bool {
        let counted = |kept| (kept < TABLE_SLOTS).then_some(kept + 1);
        if self.kept.fetch_update(SeqCst, SeqCst, counted).is_err() {
            return false;
        }
        // One is free for each thread that is counted. A thread that misses it was overtaken by
        // others.
        while !put(&self.slots, mapping) {}
        true
    }

    fn take(&self) -> Option<NonNull<u8>> {
        if self.kept.load(SeqCst) == 0 {
            // As if it had looked at all slots, now.
            return None;
        }
        let taken = take(&self.slots)?;
        self.kept.fetch_sub(1, SeqCst);
        Some(taken)
    }
}

/// What is kept of one size.
struct Size {
    /// How many mappings are kept, at least.
    kept: AtomicUsize,
    newest: AtomicPtr<Table>,
    slots: [Slot; FIRST_SLOTS],
}

impl Size {
    const fn new() -> Size {
        Size {
            kept: AtomicUsize::new(0),
            newest: AtomicPtr::new(null_mut()),
            slots: [const { AtomicPtr::new(null_mut()) }; FIRST_SLOTS],
        }
    }

    fn newest(&self) -> Option<&'static Table> {
        // SAFETY: null, or a table that was written before its address was stored here, and stays.
        unsafe { self.newest.load(SeqCst).as_ref() }
    }

    /// From the newest to the oldest.
    fn tables(&self) -> impl Iterator<Item = &'static Table> {
        iter::successors(self.newest(), |table| table.older)
    }

    /// Keeps a mapping in a slot, or as a table if there are too few slots. Lock-free. Says whether
    /// it is in a slot.
    ///
    /// # Safety
    ///
    /// A mapping of this size, whose memory is this thread's alone; all zeros if it is not
    /// [`DIRTY`].
    unsafe fn put(&self, mapping: NonNull<u8>) -> bool {
        let kept = self.kept.fetch_add(1, SeqCst) + 1;
        loop {
            let newest = self.newest();
            let room = newest.map_or(FIRST_SLOTS, |table| table.room);
            if kept <= room {
                if put(&self.slots, mapping) || self.tables().any(|table| table.put(mapping)) {
                    return true;
                }
            // SAFETY: the caller's promise.
            } else if unsafe { self.extend(newest, mapping) } {
                self.kept.fetch_sub(1, SeqCst);
                return false;
            }
        }
    }

    /// Makes a table of a mapping. `false`: another thread was faster, and the mapping is as it
    /// was.
    ///
    /// # Safety
    ///
    /// As for `put`.
    unsafe fn extend(&self, newest: Option<&'static Table>, mapping: NonNull<u8>) -> bool {
        let (start, _) = split(mapping);
        let place = start.cast::<Table>().as_ptr();
        // SAFETY: the caller's promise; the smallest mapping has room for a table, and is aligned
        // for it.
        unsafe {
            place.write(Table {
                older: newest,
                room: newest.map_or(FIRST_SLOTS, |table| table.room) + TABLE_SLOTS,
                kept: AtomicUsize::new(0),
                slots: [const { AtomicPtr::new(null_mut()) }; TABLE_SLOTS],
            });
        }
        let newest = newest.map_or(null_mut(), |table| ptr::from_ref(table).cast_mut());
        let extended = self.newest.compare_exchange(newest, place, SeqCst, SeqCst);
        if extended.is_err() {
            // The memory behind the table goes back, or is zeroed.
            // SAFETY: no other thread knows it; the first page of a mapping is all its own.
            unsafe {
                if !platform::discard(start, UNIT) {
                    start.write_bytes(0, size_of::<Table>());
                }
            }
        }
        extended.is_ok()
    }

    /// Takes a mapping out of a slot: as it was put. Wait-free, but for tables that are made
    /// meanwhile.
    fn take(&self) -> Option<NonNull<u8>> {
        if self.kept.load(SeqCst) == 0 {
            // As if it had looked at all slots, now.
            return None;
        }
        // Which table is the newest, is asked after the size's own slots have been passed.
        let from_tables = || self.tables().find_map(Table::take);
        let taken = take(&self.slots).or_else(from_tables)?;
        self.kept.fetch_sub(1, SeqCst);
        Some(taken)
    }
}

/// The start of a mapping, and whether it may hold other than zeros.
fn split(mapping: NonNull<u8>) -> (NonNull<u8>, bool) {
    let start = mapping.as_ptr().map_addr(|address| address & !DIRTY);
    let start = NonNull::new(start).expect("no mapping begins there");
    (start, start != mapping)
}

/// At least so many bytes of zeroed, page-aligned memory, or `None` when there is none. Lock-free.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    KEPT.map(bytes)
}

/// Gives back what [`map`] returned. Lock-free.
///
/// # Safety
///
/// `map` returned it for so many bytes, and nothing uses it any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { KEPT.unmap(start, bytes) }
}

/// How many mappings one call offers to the system.
const OFFERS: usize = 4;

static KEPT: Kept = Kept::new();

struct Kept {
    sizes: [Size; SIZES],
    /// How many there are in slots: a hint, to know quickly when there are none.
    count: AtomicUsize,
    /// Where the search for one to offer begins.
    next_offer: AtomicUsize,
}

impl Kept {
    const fn new() -> Kept {
        Kept {
            sizes: [const { Size::new() }; SIZES],
            count: AtomicUsize::new(0),
            next_offer: AtomicUsize::new(0),
        }
    }

    fn map(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = rounded(bytes);
        let take = || self.take(bytes);
        // Refused, it looks once more: one that is kept may have been in the hands of a thread that
        // offered it, and another thread may have dropped one.
        take().or_else(|| platform::map(bytes)).or_else(take)
    }

    /// # Safety
    ///
    /// As for the function of this name.
    unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize) {
        let bytes = rounded(bytes);
        // SAFETY: the caller's promise: a mapping of this size.
        unsafe {
            match platform::unmap(start, bytes) {
                // There may be room for others too.
                true => self.offer(),
                false => self.put(start, bytes),
            }
        }
    }

    /// Keeps a mapping, without the memory behind it. Lock-free.
    ///
    /// # Safety
    ///
    /// A mapping of this rounded size, which nothing uses any more.
    unsafe fn put(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        let is_zero = unsafe { platform::discard(start, bytes) };
        let mapping = start.map_addr(|address| match is_zero {
            true => address,
            false => address | DIRTY,
        });
        // SAFETY: as above, and what was discarded reads as zeros.
        unsafe { self.put_again(index(bytes), mapping) }
    }

    /// # Safety
    ///
    /// As for [`Size::put`].
    unsafe fn put_again(&self, index: usize, mapping: NonNull<u8>) {
        self.count.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise.
        if !unsafe { self.sizes[index].put(mapping) } {
            self.count.fetch_sub(1, SeqCst);
        }
    }

    fn take_any(&self, index: usize) -> Option<NonNull<u8>> {
        let taken = self.sizes[index].take()?;
        self.count.fetch_sub(1, SeqCst);
        Some(taken)
    }

    /// Takes a mapping of this rounded size, zeroed, if one is kept. Lock-free.
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let (start, is_dirty) = split(self.take_any(index(bytes))?);
        if is_dirty {
            // SAFETY: taken out, and so this thread's alone.
            unsafe { start.write_bytes(0, bytes) };
        }
        Some(start)
    }

    /// Offers a few to the system again, until it refuses one. Lock-free.
    fn offer(&self) {
        for _ in 0..OFFERS {
            if self.count.load(SeqCst) == 0 {
                return;
            }
            let from = self.next_offer.load(SeqCst);
            let mut indices = (from..SIZES).chain(0..from);
            let Some(index) = indices.find(|&index| self.sizes[index].kept.load(SeqCst) > 0) else {
                return;
            };
            self.next_offer.store((index + 1) % SIZES, SeqCst);
            let Some(mapping) = self.take_any(index) else {
                continue;
            };
            // SAFETY: taken out, and so this thread's alone. Refused, it stays as it is.
            unsafe {
                if !platform::unmap(split(mapping).0, size_at(index)) {
                    return self.put_again(index, mapping);
                }
            }
        }
    }
}

const _: () = assert!(size_of::<Table>() <= UNIT && align_of::<Table>() <= UNIT);

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
        assert!(sizes.iter().all(|&bytes| {
            let size = rounded(bytes);
            size_at(index(size)) == size
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
                    if is_discarded {
                        lists.put(start, bytes);
                    } else {
                        // As where the program has locked memory.
                        lists.put_again(index(bytes), start.map_addr(|address| address | DIRTY));
                    }
                }
                start
            });
            assert_eq!(lists.take(rounded(8193)), None);
            for number in [0, 2, 1] {
                let bytes = sizes[number];
                assert_eq!(lists.take(bytes), Some(kept[number]));
                // SAFETY: taken, and so this test's.
                let words = unsafe { std::slice::from_raw_parts(kept[number].as_ptr(), bytes) };
                assert!(words.iter().all(|byte| *byte == 0));
                // SAFETY: as above.
                assert!(unsafe { platform::unmap(kept[number], bytes) });
            }
            assert_eq!(lists.take(sizes[0]), None);
            lists.offer();
            assert_eq!(lists.take(sizes[3]), None);
            assert_eq!(lists.count.load(SeqCst), 0);
        }
    }

    /// More than there are slots for a start, and in a table.
    #[test]
    fn many_of_one_size_are_all_taken_again_but_for_tables() {
        const MANY: usize = FIRST_SLOTS + 3 * TABLE_SLOTS;
        let lists = Kept::new();
        let bytes = rounded(1);
        let take_all = || {
            let all: Vec<_> = std::iter::from_fn(|| lists.take(bytes)).collect();
            for &start in &all {
                // SAFETY: taken, and so this test's.
                let words = unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) };
                assert!(words.iter().all(|byte| *byte == 0));
            }
            all
        };
        // SAFETY: just mapped or taken, and not used after that.
        let put = |start: NonNull<u8>| unsafe {
            start.write_bytes(7, bytes);
            lists.put(start, bytes);
        };
        (0..MANY).for_each(|_| put(platform::map(bytes).unwrap()));
        for _round in 0..3 {
            let all = take_all();
            let mut distinct = all.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!((all.len(), distinct.len()), (MANY - 3, MANY - 3));
            assert_eq!(lists.count.load(SeqCst), 0);
            all.into_iter().for_each(put);
        }
        while lists.count.load(SeqCst) > 0 {
            lists.offer();
        }
        assert_eq!(lists.take(bytes), None);
    }
}
