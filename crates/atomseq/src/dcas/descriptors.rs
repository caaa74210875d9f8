//! The descriptors of k-CAS: type-stable memory (GC96 2) that is never unmapped, in blocks.
//!
//! An operation has a block to itself while it lasts; a thread comes back to the block it had last, which nobody else
//! looks for unless there are more threads than blocks. A thread that is ended inside an operation keeps its block.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;

use crate::platform;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::kcas;

/// Sequence numbers begin again after so many.
pub(super) const SEQUENCES: u64 = 1 << 38;

const PER_BLOCK: usize = 64;
const BLOCKS: usize = 1 << 15;

/// The most descriptors there can be.
pub(super) const MOST: usize = PER_BLOCK * BLOCKS;

/// How many blocks a thread looks through before it makes a new one.
const LOOKS: usize = 8;

/// One operation. All zero is one that never was.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Descriptor {
    /// The sequence number, shifted by two; below, the decision.
    pub(super) status: AtomicU64,
    pub(super) helpers: AtomicU64,
    pub(super) count: AtomicU64,
    pub(super) entries: [Entry; kcas::MOST + 1],
}

/// One word's part of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) word: AtomicUsize,
    pub(super) old: AtomicU64,
    pub(super) new: AtomicU64,
    /// The number of the last operation whose reference was put into the word.
    pub(super) installed: AtomicU64,
    /// The number of the last one whose reference was replaced there.
    pub(super) released: AtomicU64,
}

#[repr(C, align(64))]
struct Block {
    busy: AtomicU32,
    /// Where the last search ended.
    next: AtomicU32,
    descriptors: [Descriptor; PER_BLOCK],
}

static TABLE: [AtomicPtr<Block>; BLOCKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BLOCKS];

/// How many of them there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

// The block that this thread had last. A plain word: no destructor, and nothing is set up on first use.
thread_local!(static LAST: Cell<usize> = const { Cell::new(usize::MAX) });

/// The descriptor of an index that a reference has held.
pub(super) fn at(index: usize) -> &'static Descriptor {
    // Acquire: pairs with the release that put the block there.
    let block = TABLE[index / PER_BLOCK].load(Ordering::Acquire);
    // SAFETY: the index comes from a reference, so its block was there before, and none is ever unmapped.
    unsafe { &(*block).descriptors[index % PER_BLOCK] }
}

/// A descriptor for the caller alone to fill.
pub(super) struct Taken {
    pub(super) descriptor: &'static Descriptor,
    pub(super) index: usize,
    /// The number of the operation that it is for.
    pub(super) sequence: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `try_take`.
        block(self.index / PER_BLOCK)
            .busy
            .store(0, Ordering::Release);
    }
}

fn block(number: usize) -> &'static Block {
    // SAFETY: the callers have seen that there is one; none is ever unmapped.
    unsafe { &*TABLE[number].load(Ordering::Acquire) }
}

/// A descriptor that nothing refers to.
///
/// # Panics
///
/// If all are bound, [`MOST`] of them, or there is no memory for more.
pub(super) fn take() -> Taken {
    let last = LAST.with(Cell::get);
    if last != usize::MAX {
        if let Some(taken) = try_take(last) {
            return taken;
        }
    }
    take_elsewhere(last)
}

#[cold]
fn take_elsewhere(last: usize) -> Taken {
    let found = |number: usize, taken: Taken| {
        LAST.with(|last| last.set(number));
        taken
    };
    loop {
        let count = COUNT.load(Ordering::Acquire);
        // A thread's first block is one that nobody is in, or a new one.
        let start = last.wrapping_add(1);
        let looks = if count < BLOCKS {
            LOOKS.min(count)
        } else {
            count
        };
        for number in (0..looks).map(|step| start.wrapping_add(step) % count) {
            if let Some(taken) = try_take(number) {
                return found(number, taken);
            }
        }
        if count < BLOCKS {
            make_block(count);
        } else {
            std::thread::yield_now();
        }
    }
}

fn try_take(number: usize) -> Option<Taken> {
    let block = block(number);
    // Acquire: pairs with the release in `Taken`'s drop.
    if block.busy.load(Ordering::Relaxed) != 0 || block.busy.swap(1, Ordering::Acquire) != 0 {
        return None;
    }
    let start = block.next.load(Ordering::Relaxed) as usize;
    for step in 0..PER_BLOCK {
        let place = (start + step) % PER_BLOCK;
        let descriptor = &block.descriptors[place];
        if kcas::is_free(descriptor) {
            block.next.store(place as u32 + 1, Ordering::Relaxed);
            let before = descriptor.status.load(Ordering::Relaxed) >> 2;
            // Zero is that of an operation that never was.
            let sequence = ((before + 1) % SEQUENCES).max(1);
            return Some(Taken {
                descriptor,
                index: number * PER_BLOCK + place,
                sequence,
            });
        }
    }
    block.busy.store(0, Ordering::Release);
    None
}

fn make_block(number: usize) {
    let bytes = size_of::<Block>();
    let memory: NonNull<u8> = platform::map(bytes).expect("memory for descriptors of k-CAS");
    let made = memory.as_ptr().cast::<Block>();
    // Release: pairs with the acquire of whoever finds it. Zeroed memory is a block of operations that never were.
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
}
