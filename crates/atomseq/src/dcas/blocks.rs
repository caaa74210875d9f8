//! Where the descriptors of k-CAS lie: in blocks of one page each, mapped one by one and never
//! unmapped.
//!
//! One thread owns a block (`owner.rs`) and takes descriptors there without atomic instructions; or
//! the block is shared, and threads take descriptors by compare-and-swap. All blocks are shared
//! where the kernel does not report whether a thread has exited. Shared blocks also serve code that
//! interrupted its thread while that took a descriptor, and threads that cannot allocate a block.
//! For these threads, some blocks lie in static memory, so taking a descriptor never fails. Blocks
//! of exited threads are reused.
//!
//! Such code is a signal handler, or a coroutine to which a handler has switched. A coroutine may
//! be interrupted in turn while it takes a descriptor, and continue after the first one. So a
//! thread marks by one instruction that it takes a descriptor or another block, and only the code
//! that set the mark takes it away.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, compiler_fence};

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::{mappings, platform};

use super::descriptors::{Descriptor, Taken};
use super::owner::{KEPT, Owner, SHARED};

/// How many descriptors fit into a page beside the other fields of a block.
pub(super) const PER_BLOCK: usize = 15;
/// How many descriptor indices a block takes up.
pub(super) const PLACES: usize = 16;
pub(super) const BLOCKS: usize = 1 << 15;

const _: () = assert!(size_of::<Block>() <= 4096 && PER_BLOCK < PLACES);

/// How many existing blocks a thread tries before it maps a new one, if at least half of the blocks
/// are in use. Otherwise it tries all.
const LOOKS: usize = 8;

static TABLE: [AtomicPtr<Block>; BLOCKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BLOCKS];

/// Blocks for threads that cannot allocate. They are shared from the start, and serve 240
/// operations at a time.
static RESERVE: Reserve = Reserve(UnsafeCell::new(MaybeUninit::zeroed()));
const RESERVED: usize = 16;

/// How many blocks of the reserve are in the table or about to be.
static RESERVES_USED: AtomicUsize = AtomicUsize::new(0);

struct Reserve(UnsafeCell<MaybeUninit<[Block; RESERVED]>>);

// SAFETY: all zeros is a valid block, and the contents of a block are atomics that all threads may
// access. `number` is written only before the block is published.
unsafe impl Sync for Reserve {}

/// The number of blocks. Every load of it acquires: this pairs with the release of `fetch_max` in
/// `put`, so that the loading thread finds each counted block in the table.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The block that the next search tries first, so that searches rotate. A round ends at [`COUNT`].
static HAND: AtomicUsize = AtomicUsize::new(0);

/// How many blocks were found in use in this round of searches, and in the one before. Hints.
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static IN_USE_BEFORE: AtomicUsize = AtomicUsize::new(0);

/// Where threads own blocks: the shared block that a thread tries first, chosen by the address of
/// its record. Each is null, or the block in which a search last found a shared descriptor. With
/// searches alone, each new thread whose handler needs a shared descriptor could share the block of
/// an exited thread. That is permanent, so the number of blocks would grow with that of threads.
static FIRST_SHARED: [AtomicPtr<Block>; 16] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 16];

/// A page of descriptors. All zeros is one that no thread has used.
#[repr(C, align(64))]
struct Block {
    owner: Owner,
    number: usize,
    descriptors: [Descriptor; PER_BLOCK],
}

/// Where a thread continues its search for a free descriptor. The words are atomics, because a
/// handler may read and change them at any time.
struct Cursor {
    block: AtomicPtr<Block>,
    /// The index in the block to try next. In `owned`, [`TAKING`] is added while the thread takes a
    /// descriptor or another block; if a handler leaves the thread there by a `siglongjmp`, it
    /// stays set. Then only the code that has added it changes this cursor.
    next: AtomicUsize,
}

const TAKING: usize = 1 << 16;

/// The record of a thread.
struct Thread {
    /// The owner word of this thread's last claim of a block. In a child of `fork`, that of the
    /// parent's thread, until the next claim.
    word: AtomicU64,
    owned: Cursor,
    shared: Cursor,
    /// A block that this thread keeps permanently, to measure.
    kept: Cursor,
}

impl Cursor {
    const fn new() -> Cursor {
        Cursor {
            block: AtomicPtr::new(std::ptr::null_mut()),
            next: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    fn block(&self) -> Option<&'static Block> {
        // SAFETY: the pointer is null or that of a block, and no block is ever unmapped. Relaxed:
        // only this thread and its handlers store it.
        unsafe { self.block.load(Ordering::Relaxed).as_ref() }
    }

    fn set(&self, block: &'static Block) {
        let block = std::ptr::from_ref(block).cast_mut();
        self.block.store(block, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.block.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Adds [`TAKING`], and returns the index in the block to try next. Returns `None` if
    /// interrupted code has added it.
    #[inline(always)]
    fn mark(&self) -> Option<usize> {
        loop {
            let next = self.next.load(Ordering::Relaxed);
            if next & TAKING != 0 {
                return None;
            }
            if platform::compare_exchange_here(&self.next, next, next | TAKING) {
                return Some(next);
            }
        }
    }

    /// Takes [`TAKING`] away. The next search starts at this index.
    #[inline(always)]
    fn unmark(&self, next: usize) {
        // Orders this after the steps under the mark, for code that interrupts this thread.
        compiler_fence(Ordering::SeqCst);
        self.next.store(next, Ordering::Relaxed);
    }
}

impl Thread {
    const fn new() -> Thread {
        Thread {
            word: AtomicU64::new(0),
            owned: Cursor::new(),
            shared: Cursor::new(),
            kept: Cursor::new(),
        }
    }

    #[inline(always)]
    fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }
}

/// Returns the index in a block after this one.
#[inline(always)]
fn following(place: usize) -> usize {
    match place + 1 {
        PER_BLOCK => 0,
        next => next,
    }
}

/// Returns the record of the calling thread.
#[inline(always)]
fn thread() -> &'static Thread {
    let thread: *const Thread = crate::__thread_storage!(Thread, Thread::new());
    // SAFETY: the storage belongs to this thread and holds only atomics. Callers do not use the
    // reference after the thread has exited.
    unsafe { &*thread }
}

/// Returns the descriptor of an index that a reference has held.
#[inline]
pub(super) fn at(index: usize) -> &'static Descriptor {
    // The index comes from a reference, so its block exists.
    &block(index / PLACES).descriptors[index % PLACES]
}

#[inline]
fn block(number: usize) -> &'static Block {
    // SAFETY: callers pass only numbers of blocks that exist, and no block is ever unmapped.
    // Acquire: pairs with the release in `put`.
    unsafe { &*TABLE[number].load(Ordering::Acquire) }
}

/// Takes a descriptor that no word refers to, for this many entries.
///
/// Waits only if no block can be allocated and every descriptor of the shared blocks is taken.
#[inline]
pub(super) fn take(count: usize) -> Taken {
    let thread = thread();
    if thread.owned.block().is_none() {
        return take_without_block(thread, count);
    }
    let Some(next) = thread.owned.mark() else {
        return take_shared(thread, count);
    };
    if let Some(block) = thread.owned.block() {
        if let Some((place, sequence)) = block.find_owned(thread, next, count) {
            thread.owned.unmark(following(place));
            return block.taken(place, sequence);
        }
    }
    take_elsewhere(thread, next, count)
}

/// Takes the next descriptor of a block that this thread keeps permanently, whether or not it is
/// free.
#[inline]
pub(super) fn take_anyway(count: usize) -> Taken {
    let kept = &thread().kept;
    let block = kept.block().unwrap_or_else(|| keep(kept));
    let next = kept.next.load(Ordering::Relaxed);
    let sequence = block.descriptors[next].take_anyway(count);
    kept.next.store(following(next), Ordering::Relaxed);
    block.taken(next, sequence)
}

/// Allocates a block that no thread has used before and no other will use.
#[cold]
fn keep(kept: &Cursor) -> &'static Block {
    loop {
        let block = add_mapped().expect("memory to measure with");
        let unused = |descriptor: &Descriptor| descriptor.status.load(Ordering::Relaxed) == 0;
        let is_new = || block.descriptors.iter().all(unused);
        if is_new() && block.owner.reserve(KEPT) && is_new() {
            kept.set(block);
            return block;
        }
    }
}

impl Block {
    /// Takes a free descriptor of a block that this thread owns, and returns its index in the block
    /// and its sequence number. The thread has marked its cursor.
    #[inline(always)]
    fn find_owned(&self, thread: &Thread, next: usize, count: usize) -> Option<(usize, u64)> {
        match self.owner.is(thread.word()) {
            true => self.find::<true>(next, count),
            false => None,
        }
    }

    /// Takes a free descriptor of a shared block.
    fn take_shared(&'static self, shared: &Cursor, count: usize) -> Option<Taken> {
        let next = shared.next.load(Ordering::Relaxed);
        let (place, sequence) = self.find::<false>(next, count)?;
        shared.next.store(following(place), Ordering::Relaxed);
        Some(self.taken(place, sequence))
    }

    /// Takes a free descriptor and returns its index in the block and its sequence number. Returns
    /// `None` if all are taken. The search starts at the index `next`.
    #[inline(always)]
    fn find<const ALONE: bool>(&self, next: usize, count: usize) -> Option<(usize, u64)> {
        match self.descriptors[next].try_take::<ALONE>(count) {
            Some(sequence) => Some((next, sequence)),
            None => self.find_from::<ALONE>(following(next), count),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_from<const ALONE: bool>(&self, first: usize, count: usize) -> Option<(usize, u64)> {
        for step in 0..PER_BLOCK {
            let place = (first + step) % PER_BLOCK;
            if let Some(sequence) = self.descriptors[place].try_take::<ALONE>(count) {
                return Some((place, sequence));
            }
        }
        None
    }

    #[inline(always)]
    fn taken(&'static self, place: usize, sequence: u64) -> Taken {
        Taken {
            descriptor: &self.descriptors[place],
            index: self.number * PLACES + place,
            sequence,
        }
    }
}

/// Takes a descriptor when the thread owned no block a moment ago.
#[cold]
#[inline(never)]
fn take_without_block(thread: &Thread, count: usize) -> Taken {
    if platform::knows_who_has_ended() {
        if let Some(next) = thread.owned.mark() {
            return take_elsewhere(thread, next, count);
        }
    }
    take_shared(thread, count)
}

/// Takes a descriptor when the thread owns no block, or all descriptors of its block are taken. The
/// thread has marked its cursor, which had this index.
#[cold]
#[inline(never)]
fn take_elsewhere(thread: &Thread, next: usize, count: usize) -> Taken {
    match take_of_another(thread, count) {
        Some((taken, after)) => {
            thread.owned.unmark(after);
            taken
        }
        None => {
            thread.owned.unmark(next);
            take_shared(thread, count)
        }
    }
}

/// Claims another block for this thread and takes a descriptor there. Returns it, and the index in
/// the block to try next. Returns `None` if the thread cannot own a block.
fn take_of_another(thread: &Thread, count: usize) -> Option<(Taken, usize)> {
    // A sandbox that was set up after start-up may refuse to say which thread this is.
    let me = platform::thread_name()?;
    if let Some(block) = thread.owned.block() {
        // All descriptors of this block are taken.
        thread.owned.clear();
        block.owner.release(thread.word());
    }
    let mut after = 0;
    let taken = search(|block| {
        let word = block.owner.claim(me)?;
        let Some((place, sequence)) = block.find::<true>(0, count) else {
            block.owner.release(word);
            return None;
        };
        thread.word.store(word, Ordering::Relaxed);
        thread.owned.set(block);
        after = following(place);
        Some(block.taken(place, sequence))
    });
    taken.map(|taken| (taken, after))
}

/// Takes a descriptor of a shared block by compare-and-swap. Waits while all are taken and no block
/// can be allocated.
fn take_shared(thread: &Thread, count: usize) -> Taken {
    let shared = &thread.shared;
    if let Some(block) = shared.block() {
        if let Some(taken) = block.take_shared(shared, count) {
            return taken;
        }
    }
    // Up to one block for each CPU, so that threads do not all start with the same block. (Acquire
    // is not needed here: the number is only compared.)
    if COUNT.load(Ordering::Acquire) < platform::cpu_slots() {
        if let Some(block) = add_mapped() {
            block.owner.reserve(SHARED);
        }
    }
    let first = &FIRST_SHARED[(&raw const *thread as usize >> 12) % FIRST_SHARED.len()];
    let mut take = |block: &'static Block| {
        if !block.owner.is(SHARED) && !block.owner.reserve(SHARED) {
            return None;
        }
        shared.set(block);
        let taken = block.take_shared(shared, count)?;
        // Release: pairs with the acquire below, so that the loading thread sees the block's fields
        // even if it has not seen the block counted.
        first.store(std::ptr::from_ref(block).cast_mut(), Ordering::Release);
        Some(taken)
    };
    if platform::knows_who_has_ended() {
        // SAFETY: the pointer is null or that of a block, and no block is ever unmapped. Acquire:
        // pairs with the release above.
        let first = unsafe { first.load(Ordering::Acquire).as_ref() };
        if let Some(taken) = first.and_then(&mut take) {
            return taken;
        }
    }
    loop {
        if let Some(taken) = search(&mut take) {
            return taken;
        }
        // There is no memory for another block.
        if let Some(taken) = add_reserved().and_then(&mut take) {
            return taken;
        }
        if let Some(taken) = (0..COUNT.load(Ordering::Acquire)).find_map(|it| take(block(it))) {
            return taken;
        }
        std::thread::yield_now();
    }
}

/// Calls `take` on existing blocks, and then on a new one, until it returns a descriptor. Returns
/// `None` if no block can be allocated.
///
/// Maps a new block only if half of all are in use, or all are. A few tries alone would not do: the
/// blocks of short-lived threads lie together, behind those of the first threads, which may live as
/// long as the process.
fn search(mut take: impl FnMut(&'static Block) -> Option<Taken>) -> Option<Taken> {
    loop {
        let blocks = COUNT.load(Ordering::Acquire);
        for tries in 0..blocks {
            if tries >= LOOKS && blocks <= 2 * in_use() {
                break;
            }
            if let Some(taken) = take(block(next_number(blocks))) {
                return Some(taken);
            }
            IN_USE.fetch_add(1, Ordering::Relaxed);
        }
        // Another thread may take all descriptors of the new block first.
        if let Some(taken) = take(add_mapped()?) {
            return Some(taken);
        }
    }
}

/// Returns how many blocks were found in use in this round, or in the one before if those were
/// more.
fn in_use() -> usize {
    let before = IN_USE_BEFORE.load(Ordering::Relaxed);
    before.max(IN_USE.load(Ordering::Relaxed))
}

/// Returns the number of the block to try next, of so many. Begins the next round at the end.
///
/// The hand wraps around by itself, not by a remainder: while each search maps a block, the
/// remainder of a hand that moves by `LOOKS` a search would return to the same blocks each time.
fn next_number(blocks: usize) -> usize {
    let number = HAND.fetch_add(1, Ordering::Relaxed);
    if number < blocks {
        return number;
    }
    // Other threads may do the same now. Then they try some blocks twice, or count too few.
    HAND.store(1, Ordering::Relaxed);
    let in_use = IN_USE.swap(0, Ordering::Relaxed);
    IN_USE_BEFORE.store(in_use, Ordering::Relaxed);
    0
}

/// Maps another block and publishes it. Another thread may take its descriptors first. Returns
/// `None` if there is no memory, or all numbers are used.
///
/// If there is no memory because another thread has mapped its block and not published it yet, this
/// returns `None` too, and the caller uses the reserve.
fn add_mapped() -> Option<&'static Block> {
    let number = COUNT.load(Ordering::Acquire);
    if number >= BLOCKS - RESERVED {
        return None;
    }
    let Some(memory) = mappings::map(size_of::<Block>()) else {
        // Another thread may have published a block of this number meanwhile, with the last memory.
        return (COUNT.load(Ordering::Acquire) > number).then(|| block(number));
    };
    // SAFETY: mapped above with the size of a block, and no other thread has the address. Zeroed
    // memory is a valid block.
    if !unsafe { put(memory.as_ptr().cast(), number) } {
        // SAFETY: mapped above, and `put` did not publish it.
        unsafe { mappings::unmap(memory, size_of::<Block>()) };
    }
    Some(block(number))
}

/// Publishes one of the blocks in static memory, if one is left. It is marked shared before another
/// thread can find it: with an owner, its other descriptors would serve no other thread.
fn add_reserved() -> Option<&'static Block> {
    let used = |used| (used < RESERVED).then_some(used + 1);
    // Relaxed: the counter only hands out indices, and publishes nothing.
    let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    let next = RESERVES_USED.fetch_update(order, failure, used).ok()?;
    // SAFETY: `next` is below `RESERVED`, and no other call got this index. Zeroed memory is a
    // valid block, which no thread owns.
    unsafe {
        let reserved = RESERVE.0.get().cast::<Block>().add(next);
        (*reserved).owner.reserve(SHARED);
        let mut numbers = COUNT.load(Ordering::Acquire)..BLOCKS;
        numbers
            .find(|&number| put(reserved, number))
            .map(|number| block(number))
    }
}

/// Publishes a block under this number, if there is none yet, and returns whether it did. In both
/// cases `COUNT` includes this number afterwards.
///
/// # Safety
///
/// The block is zeroed memory, except for its number and its owner, and no other thread has it.
unsafe fn put(block: *mut Block, number: usize) -> bool {
    // SAFETY: the caller's promise: no other thread accesses the block yet.
    unsafe { (*block).number = number };
    // Release: pairs with the acquire in `block`, so the block's fields are visible.
    let (put, failure) = (Ordering::Release, Ordering::Relaxed);
    let is_put = TABLE[number].compare_exchange(std::ptr::null_mut(), block, put, failure);
    // The thread that published a block here may not have counted it yet. Release: pairs with the
    // acquire loads of `COUNT`, so a counted block is in the table.
    COUNT.fetch_max(number + 1, Ordering::Release);
    is_put.is_ok()
}

#[cfg(test)]
mod tests;
