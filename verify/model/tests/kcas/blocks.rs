//! In place of the library's file of this name: a few small blocks, new for each execution.

use std::cell::RefCell;

use super::descriptors::{Block, Descriptor, Entry, Taken};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize};

/// So few that a descriptor is used again soon.
pub(super) const PER_BLOCK: usize = 1;

/// As many as references could tell apart.
pub(super) const BLOCKS: usize = (1 << 21) / PER_BLOCK;

thread_local! {
    /// All threads of a model run on one.
    static ALL: RefCell<Vec<&'static Block>> = const { RefCell::new(Vec::new()) };
}

/// So many blocks in which nothing was ever done.
pub(super) fn anew(count: usize) {
    let zero = || AtomicU64::new(0);
    let entry = || Entry {
        word: AtomicUsize::new(0),
        old: zero(),
        new: zero(),
        installed: zero(),
        released: zero(),
    };
    let descriptor = || Descriptor {
        status: zero(),
        helpers: zero(),
        count: zero(),
        entries: std::array::from_fn(|_| entry()),
    };
    let block = || Block {
        busy: AtomicU32::new(0),
        next: AtomicU32::new(0),
        descriptors: std::array::from_fn(|_| descriptor()),
    };
    let new = (0..count).map(|_| &*Box::leak(Box::new(block())));
    let old = ALL.with(|all| all.replace(new.collect()));
    for block in old {
        // SAFETY: leaked here, in an execution that is over.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(block).cast_mut()) });
    }
}

pub(super) fn at(index: usize) -> &'static Descriptor {
    &all()[index / PER_BLOCK].descriptors[index % PER_BLOCK]
}

pub(super) fn take() -> Taken {
    let all = all().into_iter().enumerate();
    let taken = all.filter_map(|(number, block)| block.try_take(number)).next();
    taken.expect("the descriptors have run out")
}

/// Nothing is measured here.
pub(super) fn take_anyway() -> Taken {
    unreachable!("models take back what is free")
}

/// How many are not free.
pub(super) fn bound() -> usize {
    let all = all().into_iter().flat_map(|block| &block.descriptors);
    all.filter(|descriptor| !super::kcas::is_free(descriptor)).count()
}

fn all() -> Vec<&'static Block> {
    ALL.with_borrow(Clone::clone)
}
