//! Where the blocks of k-CAS's descriptors are: mapped one by one, and never unmapped.
//!
//! A thread comes back to the block it had last, which nobody else looks for unless there are more threads than blocks. A
//! thread that is ended inside an operation keeps its block.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;

use crate::platform;
use crate::sync::{AtomicUsize, Ordering};

use super::descriptors::{Block, Descriptor, Taken};

pub(super) const PER_BLOCK: usize = 64;
pub(super) const BLOCKS: usize = 1 << 15;

/// How many blocks a thread looks through before it makes a new one.
const LOOKS: usize = 8;

static TABLE: [AtomicPtr<Block>; BLOCKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; BLOCKS];

/// How many of them there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

// The block that this thread had last. A plain word: no destructor, and nothing is set up on first use.
thread_local!(static LAST: Cell<usize> = const { Cell::new(usize::MAX) });

// The block that this thread keeps, to measure.
thread_local!(static KEPT: Cell<usize> = const { Cell::new(usize::MAX) });

/// The descriptor of an index that a reference has held.
#[inline]
pub(super) fn at(index: usize) -> &'static Descriptor {
    // Acquire: pairs with the release that put the block there.
    let block = TABLE[index / PER_BLOCK].load(Ordering::Acquire);
    // SAFETY: the index comes from a reference, so its block was there before, and none is ever unmapped.
    unsafe { &(*block).descriptors[index % PER_BLOCK] }
}

#[inline]
fn block(number: usize) -> &'static Block {
    // SAFETY: the callers have seen that there is one; none is ever unmapped.
    unsafe { &*TABLE[number].load(Ordering::Acquire) }
}

/// How many descriptors some word is bound to, or somebody is filling, about now.
#[cfg(test)]
pub(super) fn bound() -> usize {
    let blocks = (0..COUNT.load(Ordering::Acquire)).map(block);
    let descriptors = blocks.flat_map(|block| &block.descriptors);
    descriptors
        .filter(|descriptor| !super::kcas::is_free(descriptor))
        .count()
}

/// A descriptor that nothing refers to.
///
/// # Panics
///
/// If all are bound, or there is no memory for more.
#[inline]
pub(super) fn take() -> Taken {
    let last = LAST.with(Cell::get);
    if last != usize::MAX {
        if let Some(taken) = block(last).try_take(last) {
            return taken;
        }
    }
    take_elsewhere(last)
}

/// The next descriptor of a block that this thread keeps for good, whether it is free or not: for
/// [`kcas::exchange_with`](super::kcas::exchange_with), which forgets what this returns.
pub(super) fn take_anyway() -> Taken {
    let kept = KEPT.with(Cell::get);
    if kept == usize::MAX {
        return keep();
    }
    block(kept).take_anyway(kept)
}

/// The first descriptor of a block in which nobody has been before. Others do not look for what is in use.
#[cold]
fn keep() -> Taken {
    loop {
        let number = COUNT.load(Ordering::Acquire);
        make_block(number);
        if let Some(taken) = block(number).try_take(number) {
            if taken.index % PER_BLOCK == 0 && taken.sequence == 1 {
                KEPT.with(|kept| kept.set(number));
                return taken;
            }
        }
    }
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
            if let Some(taken) = block(number).try_take(number) {
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
