//! Mappings from the system. Mappings that the system refuses to take back are kept for later use
//! at the same size.
//!
//! All code that repeatedly maps memory uses this module.
//!
//! A process at its limit of mappings may be unable to return one, since that can split a mapping,
//! and a sandbox may refuse the call. A mapping that cannot be returned is kept without the memory
//! behind it. Sizes are rounded, so there are few of them.
//!
//! ```text
//! sizes[index]:  slots  [ mapping | - | mapping | mapping ]
//!                newest ──> table: slots [ - | … | mapping ]
//!                           older ──> table … ──> null
//!
//! mapping:       its address, plus 1 if it may hold other values than zeros
//! table:         the first bytes of a mapping that found no slot
//! ```
//!
//! A thread takes a mapping by exchanging a slot for null, and puts one by exchanging null for it.
//! A mapping thus belongs to exactly one thread or one slot at any time. No thread dereferences an
//! address that it has not taken, and none holds a lock. A thread or handler that stops between two
//! steps withholds only the mapping it owns.
//!
//! Invariants, for each size:
//!
//! 1. `kept`, of a size and of a table, is at least the number of mappings in its slots plus those
//!    held by threads that look for a free slot there. A thread increments it before it looks,
//!    first for the size and then for a table. It decrements it after it has emptied a slot, first
//!    for the table and then for the size.
//! 2. A thread looks for a free slot only if the size and the table have at least as many slots as
//!    `kept` after its increment. So a slot is free for it as long as it looks.
//! 3. A mapping becomes a table only if more mappings are kept, being put and being taken at that
//!    time than there are slots. A table stays a table.
//! 4. All threads look for a mapping in the same order: the size's own slots, the newest table's,
//!    those of older tables. A thread that misses a new table passed the size's own slots before
//!    that table existed.
//!
//! Invariant 4 implies that no more is mapped than needed. Let *needed* be the max number of
//! mappings that were in use or held by threads at one time; a thread that creates or drops
//! something needs one from start to end. Imagine those that were needed and not yet mapped behind
//! the last slot. Then at least as many mappings lie ahead of a searching thread as there are
//! threads that search from there on. When it starts, this holds because every mapping not needed
//! elsewhere is in a slot or behind them. Later it holds because the thread passes only empty
//! slots, and each other thread that takes a mapping ahead of it stops searching. So a thread
//! reaches the end, and maps a new one, only if one lies there. Tables come on top of that: one
//! when more than 14 mappings are kept, and one more for each further 509.

use std::iter;
use std::ptr::{self, NonNull, null_mut};

use crate::platform;
use crate::sync::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

/// The unit of rounded sizes, in bytes: the smallest page size.
const UNIT: usize = 4096;

/// The number of sizes in each doubling, from eight units on. Rounding thus adds at most an eighth.
const TO_A_DOUBLING: usize = 8;

/// The number of sizes, including those below eight units.
const SIZES: usize =
    TO_A_DOUBLING * (usize::BITS - UNIT.ilog2() - TO_A_DOUBLING.ilog2() + 1) as usize;

/// Returns the number of low bits that rounding clears.
fn shift(units: usize) -> u32 {
    let log = units.checked_ilog2().unwrap_or(0);
    log.saturating_sub(TO_A_DOUBLING.ilog2())
}

/// Rounds a size up. Returns `usize::MAX`, which no system can map, if there is no such size.
fn rounded(bytes: usize) -> usize {
    let units = bytes.div_ceil(UNIT);
    let rounded = units.checked_next_multiple_of(1 << shift(units));
    let rounded = rounded.and_then(|units| units.checked_mul(UNIT));
    rounded.unwrap_or(usize::MAX)
}

/// Returns the index of a rounded size.
fn index(bytes: usize) -> usize {
    let units = bytes / UNIT;
    TO_A_DOUBLING * shift(units) as usize + (units >> shift(units))
}

/// Returns the rounded size with an index.
fn size_at(index: usize) -> usize {
    let doublings = (index / TO_A_DOUBLING).saturating_sub(1);
    ((index - TO_A_DOUBLING * doublings) * UNIT) << doublings
}

/// A slot: null, or the address of a mapping, plus [`DIRTY`] if it may hold other values than
/// zeros.
type Slot = AtomicPtr<u8>;

/// Added to the address of a mapping that may hold other values than zeros.
const DIRTY: usize = 1;

/// The number of a size's own slots. With them, a `Size` takes 128 bytes.
const FIRST_SLOTS: usize = 14;

/// The number of slots of a table. With them, a table takes at most the smallest page size.
const TABLE_SLOTS: usize = 509;

/// A kept mapping that now holds the addresses of others.
struct Table {
    older: Option<&'static Table>,
    /// The number of slots here, in older tables and in the size itself.
    room: usize,
    /// An upper bound of the number of mappings kept here.
    kept: AtomicUsize,
    slots: [Slot; TABLE_SLOTS],
}

/// Puts a mapping into a free slot. Returns whether it found one.
fn put(slots: &[Slot], mapping: NonNull<u8>) -> bool {
    slots.iter().any(|slot| {
        slot.compare_exchange(null_mut(), mapping.as_ptr(), SeqCst, SeqCst)
            .is_ok()
    })
}

/// Takes a mapping out of a slot, if it finds one.
fn take(slots: &[Slot]) -> Option<NonNull<u8>> {
    slots.iter().find_map(|slot| {
        // Loads first, so that empty slots are not written to.
        let _seen = NonNull::new(slot.load(SeqCst))?;
        NonNull::new(slot.swap(null_mut(), SeqCst))
    })
}

impl Table {
    /// Puts a mapping into the table. Returns `false` if it counts as full.
    fn put(&self, mapping: NonNull<u8>) -> bool {
        let counted = |kept| (kept < TABLE_SLOTS).then_some(kept + 1);
        if self.kept.fetch_update(SeqCst, SeqCst, counted).is_err() {
            return false;
        }
        // Each counted thread has a free slot. A thread that misses its slot was overtaken by
        // another that succeeded, so this is lock-free.
        while !put(&self.slots, mapping) {}
        true
    }

    fn take(&self) -> Option<NonNull<u8>> {
        if self.kept.load(SeqCst) == 0 {
            // Equivalent to finding all slots empty at this moment.
            return None;
        }
        let taken = take(&self.slots)?;
        self.kept.fetch_sub(1, SeqCst);
        Some(taken)
    }
}

/// The kept mappings of one size.
struct Size {
    /// An upper bound of the number of kept mappings.
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
        // SAFETY: null, or a table that was written before its address was stored here, and is
        // never unmapped.
        unsafe { self.newest.load(SeqCst).as_ref() }
    }

    /// Iterates from the newest table to the oldest.
    fn tables(&self) -> impl Iterator<Item = &'static Table> {
        iter::successors(self.newest(), |table| table.older)
    }

    /// Keeps a mapping in a slot, or as a table if there are too few slots. Lock-free. Returns
    /// whether it is in a slot.
    ///
    /// # Safety
    ///
    /// `mapping` must have this size, and the caller must own its memory exclusively. It must hold
    /// only zeros unless it is marked [`DIRTY`].
    unsafe fn put(&self, mapping: NonNull<u8>) -> bool {
        let kept = self.kept.fetch_add(1, SeqCst) + 1;
        loop {
            let newest = self.newest();
            let room = newest.map_or(FIRST_SLOTS, |table| table.room);
            if kept <= room {
                if put(&self.slots, mapping) || self.tables().any(|table| table.put(mapping)) {
                    return true;
                }
            // SAFETY: by the caller's contract, the mapping has this size and is owned exclusively.
            // It was not put anywhere yet.
            } else if unsafe { self.extend(newest, mapping) } {
                self.kept.fetch_sub(1, SeqCst);
                return false;
            }
        }
    }

    /// Turns a mapping into a table. Returns `false` if another thread added a table first; the
    /// mapping is then as before.
    ///
    /// # Safety
    ///
    /// As for `put`.
    unsafe fn extend(&self, newest: Option<&'static Table>, mapping: NonNull<u8>) -> bool {
        let (start, _) = split(mapping);
        let place = start.cast::<Table>().as_ptr();
        // SAFETY: the caller owns the mapping exclusively. Each mapping has at least `UNIT` bytes
        // and is page-aligned, which the assertion below shows to suffice for a table.
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
            // Discards or zeroes the memory of the table.
            // SAFETY: the exchange failed, so no other thread knows the mapping, and its first
            // `UNIT` bytes belong to this thread.
            unsafe {
                if !platform::discard(start, UNIT) {
                    start.write_bytes(0, size_of::<Table>());
                }
            }
        }
        extended.is_ok()
    }

    /// Takes a mapping out of a slot, as it was put. Wait-free if no tables are added meanwhile.
    fn take(&self) -> Option<NonNull<u8>> {
        if self.kept.load(SeqCst) == 0 {
            // Equivalent to finding all slots empty at this moment.
            return None;
        }
        // Loads the newest table only after the size's own slots: see invariant 4.
        let from_tables = || self.tables().find_map(Table::take);
        let taken = take(&self.slots).or_else(from_tables)?;
        self.kept.fetch_sub(1, SeqCst);
        Some(taken)
    }
}

/// Returns the start of a mapping, and whether it may hold other values than zeros.
fn split(mapping: NonNull<u8>) -> (NonNull<u8>, bool) {
    let start = mapping.as_ptr().map_addr(|address| address & !DIRTY);
    let start = NonNull::new(start).expect("no mapping begins there");
    (start, start != mapping)
}

/// Returns at least `bytes` bytes of zeroed, page-aligned memory, or `None` if there is none.
/// Lock-free.
pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
    KEPT.map(bytes)
}

/// Returns or keeps memory from [`map`]. Lock-free.
///
/// # Safety
///
/// `start` was returned by `map` for this number of bytes, and nothing uses the memory any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the contract is the same.
    unsafe { KEPT.unmap(start, bytes) }
}

/// The max number of kept mappings that one call offers to the system.
const OFFERS: usize = 4;

static KEPT: Kept = Kept::new();

struct Kept {
    sizes: [Size; SIZES],
    /// The number of mappings in slots: a hint that makes the empty case fast.
    count: AtomicUsize,
    /// The size index where the next search for a mapping to offer starts.
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
        // After a refusal it looks again: a thread may have held a kept mapping while offering it,
        // or another thread may have dropped one.
        take().or_else(|| platform::map(bytes)).or_else(take)
    }

    /// # Safety
    ///
    /// As for the function [`unmap`].
    unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize) {
        let bytes = rounded(bytes);
        // SAFETY: by the contract, this is a mapping of this rounded size, which nothing uses.
        unsafe {
            match platform::unmap(start, bytes) {
                // The system may now take others too.
                true => self.offer(),
                false => self.put(start, bytes),
            }
        }
    }

    /// Keeps a mapping without the memory behind it. Lock-free.
    ///
    /// # Safety
    ///
    /// `start` must be a mapping of this rounded size that nothing uses any more.
    unsafe fn put(&self, start: NonNull<u8>, bytes: usize) {
        // SAFETY: by the contract, nothing uses the memory.
        let is_zero = unsafe { platform::discard(start, bytes) };
        let mapping = start.map_addr(|address| match is_zero {
            true => address,
            false => address | DIRTY,
        });
        // SAFETY: by the contract, the caller owns the mapping. If the discard succeeded it holds
        // zeros; otherwise it is marked `DIRTY`.
        unsafe { self.put_again(index(bytes), mapping) }
    }

    /// # Safety
    ///
    /// As for [`Size::put`], with the size of `index`.
    unsafe fn put_again(&self, index: usize, mapping: NonNull<u8>) {
        self.count.fetch_add(1, SeqCst);
        // SAFETY: the contract is the same.
        if !unsafe { self.sizes[index].put(mapping) } {
            self.count.fetch_sub(1, SeqCst);
        }
    }

    fn take_any(&self, index: usize) -> Option<NonNull<u8>> {
        let taken = self.sizes[index].take()?;
        self.count.fetch_sub(1, SeqCst);
        Some(taken)
    }

    /// Takes a zeroed mapping of this rounded size, if one is kept. Lock-free.
    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let (start, is_dirty) = split(self.take_any(index(bytes))?);
        if is_dirty {
            // SAFETY: `take_any` gave the mapping to this thread exclusively, and mappings of this
            // index have `bytes` bytes.
            unsafe { start.write_bytes(0, bytes) };
        }
        Some(start)
    }

    /// Offers a few kept mappings to the system, until it refuses one. Lock-free.
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
            // SAFETY: `take_any` gave the mapping to this thread exclusively, and mappings of this
            // index have that size. If the system refuses, the mapping is unchanged.
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
                // SAFETY: mapped above with this size, and used by this test only.
                unsafe {
                    start.write_bytes(7, bytes);
                    if is_discarded {
                        lists.put(start, bytes);
                    } else {
                        // Simulates a failed discard, as for locked memory.
                        lists.put_again(index(bytes), start.map_addr(|address| address | DIRTY));
                    }
                }
                start
            });
            assert_eq!(lists.take(rounded(8193)), None);
            for number in [0, 2, 1] {
                let bytes = sizes[number];
                assert_eq!(lists.take(bytes), Some(kept[number]));
                // SAFETY: the mapping was taken, so the test owns these bytes exclusively.
                let words = unsafe { std::slice::from_raw_parts(kept[number].as_ptr(), bytes) };
                assert!(words.iter().all(|byte| *byte == 0));
                // SAFETY: the mapping was taken, and `words` is not used any more.
                assert!(unsafe { platform::unmap(kept[number], bytes) });
            }
            assert_eq!(lists.take(sizes[0]), None);
            lists.offer();
            assert_eq!(lists.take(sizes[3]), None);
            assert_eq!(lists.count.load(SeqCst), 0);
        }
    }

    /// More than fit into the size's own slots and one table.
    #[test]
    #[cfg_attr(miri, ignore = "takes long to interpret")]
    fn many_of_one_size_are_all_taken_again_but_for_tables() {
        const MANY: usize = FIRST_SLOTS + 3 * TABLE_SLOTS;
        let lists = Kept::new();
        let bytes = rounded(1);
        let take_all = || {
            let all: Vec<_> = std::iter::from_fn(|| lists.take(bytes)).collect();
            for &start in &all {
                // SAFETY: the mapping was taken, so the test owns these bytes exclusively.
                let words = unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) };
                assert!(words.iter().all(|byte| *byte == 0));
            }
            all
        };
        // SAFETY: each mapping was just mapped or taken, has this size, and is not used after this.
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
