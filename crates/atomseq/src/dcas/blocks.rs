//! Where the descriptors of k-CAS are: in blocks, mapped one by one, and never unmapped.
//!
//! A block is the home of one thread (`homes.rs`), or shared: there a descriptor is taken by a compare-and-swap, by whomever. Shared are
//! all where nobody can say whether a thread has ended, and those of handlers that have interrupted their thread while it took one. What
//! ended threads leave behind is used again, wherever they were.

use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;

use crate::platform;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

use super::descriptors::{Descriptor, Taken};
use super::homes::{KEPT, SHARED, Tenancy};

pub(super) const PER_BLOCK: usize = 64;
pub(super) const BLOCKS: usize = 1 << 15;

/// How many blocks a thread looks into before it makes a new one.
const LOOKS: usize = 8;

static TABLE: [AtomicPtr<Block>; BLOCKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BLOCKS];

/// How many of them there are.
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
    /// The descriptor in it after that. [`TAKING`] is added while the thread takes one.
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
    // SAFETY: storage of this thread, of atomic words; the callers are done with it before the thread ends.
    unsafe { &*thread }
}

/// The descriptor of an index that a reference has held.
#[inline]
pub(super) fn at(index: usize) -> &'static Descriptor {
    // The index comes from a reference, so its block was there before.
    &block(index / PER_BLOCK).descriptors[index % PER_BLOCK]
}

#[inline]
fn block(number: usize) -> &'static Block {
    // SAFETY: the callers have seen that there is one; none is ever unmapped. Acquire: pairs with the release that put it there.
    unsafe { &*TABLE[number].load(Ordering::Acquire) }
}

/// How many descriptors some word is bound to, or somebody is filling, about now.
#[cfg(test)]
pub(super) fn bound() -> usize {
    let blocks = (0..COUNT.load(Ordering::Acquire)).map(block);
    let descriptors = blocks.flat_map(|block| &block.descriptors);
    descriptors
        .filter(|descriptor| descriptor.is_free().is_none())
        .count()
}

/// A descriptor that nothing refers to, for an operation on so many words.
///
/// # Panics
///
/// If all are bound, or there is no memory for more.
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
        let block = make_block(COUNT.load(Ordering::Acquire));
        let unused = |descriptor: &Descriptor| descriptor.status.load(Ordering::Relaxed) == 0;
        let is_new = || block.descriptors.iter().all(unused);
        if is_new() && block.tenancy.reserve(KEPT) && is_new() {
            kept.set(block);
            return block;
        }
    }
}

impl Block {
    /// A free descriptor, if this is still the thread's home, and the thread was not interrupted while it took one.
    #[inline(always)]
    fn take_at_home(&'static self, thread: &Thread, count: usize) -> Option<Taken> {
        let home = &thread.home;
        // Relaxed: of this thread and its handlers only. A handler that comes in between the two has gone before the store.
        let next = home.next.load(Ordering::Relaxed);
        if next & TAKING != 0 {
            return None;
        }
        home.next.store(next | TAKING, Ordering::Relaxed);
        let mut after = next;
        let mut taken = None;
        // A handler may have moved out up to here. From here on, none does.
        if self.tenancy.is(thread.tenant()) {
            taken = self.find::<true>(next, count);
            if let Some((place, _)) = taken {
                after = place + 1;
            }
        }
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
            index: self.number * PER_BLOCK + place,
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
        // All its descriptors are bound.
        thread.home.clear();
        block.tenancy.move_out(thread.tenant());
    }
    search(|block| {
        let tenant = block.tenancy.move_in(me)?;
        thread.home.set(block);
        // A handler that moves elsewhere in between leaves both to this thread: whose home is the tenant's is checked at each take.
        thread.tenant.store(tenant, Ordering::Relaxed);
        let taken = block.take_at_home(thread, count);
        if taken.is_none() {
            thread.home.clear();
            block.tenancy.move_out(tenant);
        }
        taken
    })
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
    let few = || COUNT.load(Ordering::Acquire) < platform::cpu_slots();
    if few() {
        make_block(COUNT.load(Ordering::Acquire))
            .tenancy
            .reserve(SHARED);
    }
    search(|block| {
        if !block.tenancy.is(SHARED) && !block.tenancy.reserve(SHARED) {
            return None;
        }
        shared.set(block);
        block.take_shared(shared, count)
    })
}

/// Looks for a block of which something can be taken, a few of those that there are, and then new ones.
///
/// # Panics
///
/// If there can be no more, and nothing can be taken of any.
fn search(mut take: impl FnMut(&'static Block) -> Option<Taken>) -> Taken {
    loop {
        let blocks = COUNT.load(Ordering::Acquire);
        // Of the most that there can be, all, and again: one can become free behind a look while another one before it is taken.
        let looks = match blocks {
            BLOCKS => 2 * BLOCKS,
            _ => LOOKS.min(blocks),
        };
        for _ in 0..looks {
            let number = HAND.fetch_add(1, Ordering::Relaxed) % blocks;
            if let Some(taken) = take(block(number)) {
                return taken;
            }
        }
        assert!(
            blocks < BLOCKS,
            "no descriptor of k-CAS is free, of {}: each is bound to a word that it was the last to change, or one of the {PER_BLOCK} \
             that each thread keeps, so fewer words can be under k-CAS, or fewer threads use it",
            super::descriptors::MOST
        );
        if let Some(taken) = take(make_block(blocks)) {
            return taken;
        }
    }
}

/// The block of that number, made unless it is there.
fn make_block(number: usize) -> &'static Block {
    let bytes = size_of::<Block>();
    let memory: NonNull<u8> = platform::map(bytes).expect("memory for descriptors of k-CAS");
    let made = memory.as_ptr().cast::<Block>();
    // SAFETY: mapped above for one, and nobody else has it. Zeroed memory is a block of operations that never were.
    unsafe { (*made).number = number };
    // Release: pairs with the acquire of whoever finds it.
    let put = TABLE[number].compare_exchange(
        std::ptr::null_mut(),
        made,
        Ordering::Release,
        Ordering::Relaxed,
    );
    if put.is_err() {
        // SAFETY: mapped above, and nobody else has it.
        unsafe { platform::unmap(memory, bytes) };
    }
    // Whoever put it there may not have counted it yet.
    COUNT.fetch_max(number + 1, Ordering::Release);
    block(number)
}

#[cfg(test)]
mod tests;
