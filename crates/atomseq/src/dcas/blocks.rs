//! Where the descriptors of k-CAS are: in blocks of a page each, mapped one by one, and never
//! unmapped.
//!
//! A block is the home of one thread (`homes.rs`), or shared: there any thread takes a descriptor,
//! by a compare-and-swap. All blocks are shared where the kernel does not say whether a thread has
//! exited. Shared ones also serve handlers that interrupt their thread while it takes a descriptor,
//! and threads that find no memory for a home: for these, a few blocks lie in static memory. So
//! taking a descriptor never fails. Blocks of threads that have exited are used again.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, compiler_fence};

use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::{mappings, platform};

use super::descriptors::{Descriptor, Taken};
use super::homes::{KEPT, SHARED, Tenancy};

/// As many as fit into a page with what else a block holds.
pub(super) const PER_BLOCK: usize = 15;
/// How many numbers a block has for its descriptors.
pub(super) const PLACES: usize = 16;
pub(super) const BLOCKS: usize = 1 << 15;

const _: () = assert!(size_of::<Block>() <= 4096 && PER_BLOCK < PLACES);

/// How many blocks a thread looks into before it makes a new one.
const LOOKS: usize = 8;

static TABLE: [AtomicPtr<Block>; BLOCKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BLOCKS];

/// Blocks for when there is no memory, shared from the start: 240 operations at a time.
static RESERVE: Reserve = Reserve(UnsafeCell::new(MaybeUninit::zeroed()));
const RESERVED: usize = 16;

/// How many of them are in the table, or on their way there.
static RESERVES_USED: AtomicUsize = AtomicUsize::new(0);

struct Reserve(UnsafeCell<MaybeUninit<[Block; RESERVED]>>);

// SAFETY: zeros are blocks, and blocks are words that all threads may use.
unsafe impl Sync for Reserve {}

/// How many blocks there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Where the next look is, so that they go round.
static HAND: AtomicUsize = AtomicUsize::new(0);

/// Zeros are one in which nobody has been.
#[repr(C, align(64))]
struct Block {
    tenancy: Tenancy,
    number: usize,
    descriptors: [Descriptor; PER_BLOCK],
}

/// Where a thread last took a descriptor. Words that its handlers may find at any time.
struct Place {
    block: AtomicPtr<Block>,
    /// The descriptor in it after that. [`TAKING`] is added while the thread takes one; a handler
    /// that leaves it there by a `siglongjmp` leaves it for good.
    next: AtomicUsize,
}

const TAKING: usize = 1 << 16;

/// What each thread has.
struct Thread {
    /// As whom it last moved in. In a child of `fork` as its parent's thread, up to the next move.
    tenant: AtomicU64,
    home: Place,
    shared: Place,
    /// A block of its own for good, to measure.
    kept: Place,
}

impl Place {
    const fn nowhere() -> Place {
        Place {
            block: AtomicPtr::new(std::ptr::null_mut()),
            next: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    fn block(&self) -> Option<&'static Block> {
        // SAFETY: null, or a block, and none is ever unmapped. Relaxed: this thread stored it.
        unsafe { self.block.load(Ordering::Relaxed).as_ref() }
    }

    fn set(&self, block: &'static Block) {
        let block = std::ptr::from_ref(block).cast_mut();
        self.block.store(block, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.block.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Thread {
    const fn new() -> Thread {
        Thread {
            tenant: AtomicU64::new(0),
            home: Place::nowhere(),
            shared: Place::nowhere(),
            kept: Place::nowhere(),
        }
    }

    #[inline(always)]
    fn tenant(&self) -> u64 {
        self.tenant.load(Ordering::Relaxed)
    }
}

/// Of the calling thread.
#[inline(always)]
fn thread() -> &'static Thread {
    let thread: *const Thread = crate::__thread_storage!(Thread, Thread::new());
    // SAFETY: storage of this thread, of atomic words; the callers are done with it before the
    // thread ends.
    unsafe { &*thread }
}

/// The descriptor of an index that a reference has held.
#[inline]
pub(super) fn at(index: usize) -> &'static Descriptor {
    // The index comes from a reference, so its block was there before.
    &block(index / PLACES).descriptors[index % PLACES]
}

#[inline]
fn block(number: usize) -> &'static Block {
    // SAFETY: the callers have seen that there is one; none is ever unmapped. Acquire: pairs with
    // the release that put it there.
    unsafe { &*TABLE[number].load(Ordering::Acquire) }
}

/// A descriptor that nothing refers to, for so many entries.
///
/// Waits only if there is no memory for a block and each descriptor of the shared ones is taken.
#[inline]
pub(super) fn take(count: usize) -> Taken {
    let thread = thread();
    if let Some(block) = thread.home.block() {
        if let Some(taken) = block.take_at_home(thread, count) {
            return taken;
        }
    }
    take_elsewhere(thread, count)
}

/// The next descriptor of a block that this thread keeps for good, whether it is free or not.
#[inline]
pub(super) fn take_anyway(count: usize) -> Taken {
    let kept = &thread().kept;
    let block = kept.block().unwrap_or_else(|| keep(kept));
    let next = kept.next.load(Ordering::Relaxed) % PER_BLOCK;
    let sequence = block.descriptors[next].take_anyway(count);
    kept.next.store(next + 1, Ordering::Relaxed);
    block.taken(next, sequence)
}

/// A block in which nobody has been before, nor will be.
#[cold]
fn keep(kept: &Place) -> &'static Block {
    loop {
        let block = add_mapped().expect("memory to measure with");
        let unused = |descriptor: &Descriptor| descriptor.status.load(Ordering::Relaxed) == 0;
        let is_new = || block.descriptors.iter().all(unused);
        if is_new() && block.tenancy.reserve(KEPT) && is_new() {
            kept.set(block);
            return block;
        }
    }
}

impl Block {
    /// A free descriptor, if this is still the thread's home, and the thread was not interrupted
    /// while it took one.
    #[inline(always)]
    fn take_at_home(&'static self, thread: &Thread, count: usize) -> Option<Taken> {
        let home = &thread.home;
        // Relaxed: of this thread and its handlers only. A handler that comes in between the two
        // has gone before the store.
        let next = home.next.load(Ordering::Relaxed);
        if next & TAKING != 0 {
            return None;
        }
        home.next.store(next | TAKING, Ordering::Relaxed);
        // A handler that finds the mark finds none of what follows, and one that does not finds all
        // of it: see the other fence.
        compiler_fence(Ordering::SeqCst);
        let mut after = next;
        let mut taken = None;
        // A handler may have moved out up to here. From here on, none does.
        if self.tenancy.is(thread.tenant()) {
            taken = self.find::<true>(next, count);
            if let Some((place, _)) = taken {
                after = place + 1;
            }
        }
        compiler_fence(Ordering::SeqCst);
        home.next.store(after, Ordering::Relaxed);
        taken.map(|(place, sequence)| self.taken(place, sequence))
    }

    /// A free descriptor of a shared block.
    fn take_shared(&'static self, shared: &Place, count: usize) -> Option<Taken> {
        let next = shared.next.load(Ordering::Relaxed);
        let (place, sequence) = self.find::<false>(next, count)?;
        shared.next.store(place + 1, Ordering::Relaxed);
        Some(self.taken(place, sequence))
    }

    /// A free descriptor's place and its new number, unless there is none here.
    #[inline(always)]
    fn find<const ALONE: bool>(&self, next: usize, count: usize) -> Option<(usize, u64)> {
        for step in 0..PER_BLOCK {
            let place = next.wrapping_add(step) % PER_BLOCK;
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

#[cold]
#[inline(never)]
fn take_elsewhere(thread: &Thread, count: usize) -> Taken {
    let is_handler = thread.home.next.load(Ordering::Relaxed) & TAKING != 0;
    if is_handler || !platform::knows_who_has_ended() {
        return take_shared(thread, count);
    }
    // A sandbox that was set up late may keep back who this is.
    let Some(me) = platform::thread_name() else {
        return take_shared(thread, count);
    };
    if let Some(block) = thread.home.block() {
        // All its descriptors are taken.
        thread.home.clear();
        block.tenancy.move_out(thread.tenant());
    }
    let taken = search(|block| {
        let tenant = block.tenancy.move_in(me)?;
        thread.home.set(block);
        // A handler that moves elsewhere in between leaves both to this thread: whose home is the
        // tenant's is checked at each take.
        thread.tenant.store(tenant, Ordering::Relaxed);
        let taken = block.take_at_home(thread, count);
        if taken.is_none() {
            thread.home.clear();
            block.tenancy.move_out(tenant);
        }
        taken
    });
    taken.unwrap_or_else(|| take_shared(thread, count))
}

/// By compare-and-swap.
fn take_shared(thread: &Thread, count: usize) -> Taken {
    let shared = &thread.shared;
    if let Some(block) = shared.block() {
        if let Some(taken) = block.take_shared(shared, count) {
            return taken;
        }
    }
    // So that threads do not all begin with the same one.
    if COUNT.load(Ordering::Acquire) < platform::cpu_slots() {
        if let Some(block) = add_mapped() {
            block.tenancy.reserve(SHARED);
        }
    }
    let mut take = |block: &'static Block| {
        if !block.tenancy.is(SHARED) && !block.tenancy.reserve(SHARED) {
            return None;
        }
        shared.set(block);
        block.take_shared(shared, count)
    };
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

/// Looks for a block of which something can be taken: a few of those that there are, and then a new
/// one. `None`: there can be no new one.
fn search(mut take: impl FnMut(&'static Block) -> Option<Taken>) -> Option<Taken> {
    loop {
        let blocks = COUNT.load(Ordering::Acquire);
        for _ in 0..LOOKS.min(blocks) {
            let number = HAND.fetch_add(1, Ordering::Relaxed) % blocks;
            if let Some(taken) = take(block(number)) {
                return Some(taken);
            }
        }
        // Another thread may be faster there.
        if let Some(taken) = take(add_mapped()?) {
            return Some(taken);
        }
    }
}

/// Another block, of which another thread may take something first. `None`: there is no memory for
/// it, or no number.
///
/// A thread that is refused memory because another one has it, which has not published it yet, does
/// with the reserve.
fn add_mapped() -> Option<&'static Block> {
    let number = COUNT.load(Ordering::Acquire);
    if number >= BLOCKS - RESERVED {
        return None;
    }
    let Some(memory) = mappings::map(size_of::<Block>()) else {
        // Another thread may have had the memory that was left, for a block of this number.
        return (COUNT.load(Ordering::Acquire) > number).then(|| block(number));
    };
    // SAFETY: mapped above for a block, and nobody else has it. Zeroed memory is a block of
    // operations that never were.
    if !unsafe { put(memory.as_ptr().cast(), number) } {
        // SAFETY: mapped above, and nobody else has it.
        unsafe { mappings::unmap(memory, size_of::<Block>()) };
    }
    Some(block(number))
}

/// Puts one of the blocks in static memory into the table, if one is left. It is shared before
/// another thread can find it: as the home of one, its other descriptors would serve nobody.
fn add_reserved() -> Option<&'static Block> {
    let used = |used| (used < RESERVED).then_some(used + 1);
    // Relaxed: a number on its own.
    let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
    let next = RESERVES_USED.fetch_update(order, failure, used).ok()?;
    // SAFETY: one of the reserve, which this call alone has. Zeroed memory is a block of operations
    // that never were, and nobody's home.
    unsafe {
        let reserved = RESERVE.0.get().cast::<Block>().add(next);
        (*reserved).tenancy.reserve(SHARED);
        let mut numbers = COUNT.load(Ordering::Acquire)..BLOCKS;
        numbers
            .find(|&number| put(reserved, number))
            .map(|number| block(number))
    }
}

/// Puts a block into the table at this number, if none is there, and sees to it that what is there
/// counts.
///
/// # Safety
///
/// It is zeroed memory, but for its number and its tenancy, and the caller's.
unsafe fn put(block: *mut Block, number: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { (*block).number = number };
    // Release: pairs with the acquire of threads that find it.
    let (put, failure) = (Ordering::Release, Ordering::Relaxed);
    let is_put = TABLE[number].compare_exchange(std::ptr::null_mut(), block, put, failure);
    // The thread that put it there may not have counted it yet.
    COUNT.fetch_max(number + 1, Ordering::Release);
    is_put.is_ok()
}

#[cfg(test)]
mod tests;
