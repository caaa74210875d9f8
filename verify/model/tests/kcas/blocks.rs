//! Replaces the library's file of this name: a few shared descriptors, new for each execution.

use std::cell::RefCell;

use super::descriptors::{Descriptor, Entry, Taken};
use crate::sync::{AtomicU64, AtomicUsize};

/// The number of descriptors in a block.
pub(super) const PLACES: usize = 1;

/// As many as references can distinguish.
pub(super) const BLOCKS: usize = 1 << 19;

thread_local! {
    /// All threads of a model run on one operating-system thread.
    static ALL: RefCell<Vec<&'static Descriptor>> = const { RefCell::new(Vec::new()) };
}

/// Makes this number of unused descriptors.
pub(super) fn anew(count: usize) {
    let zero = || AtomicU64::new(0);
    let entry = || Entry {
        word: AtomicUsize::new(0),
        old: zero(),
        new: zero(),
    };
    let descriptor = || Descriptor {
        status: zero(),
        operation: zero(),
        entries: std::array::from_fn(|_| entry()),
    };
    let new = (0..count).map(|_| &*Box::leak(Box::new(descriptor())));
    let old = ALL.with(|all| all.replace(new.collect()));
    for descriptor in old {
        // SAFETY: leaked here, in an execution that is over.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(descriptor).cast_mut()) });
    }
}

pub(super) fn at(index: usize) -> &'static Descriptor {
    all()[index]
}

pub(super) fn take(count: usize) -> Taken {
    let taken = all().into_iter().enumerate().find_map(|(index, descriptor)| {
        let sequence = descriptor.try_take::<false>(count)?;
        Some(Taken {
            descriptor,
            index,
            sequence,
        })
    });
    taken.expect("the descriptors have run out")
}

/// Nothing is measured here.
pub(super) fn take_anyway(_count: usize) -> Taken {
    unreachable!("models take what is free")
}

/// Returns whether a descriptor is taken.
pub(super) fn is_one_taken() -> bool {
    all().into_iter().any(Descriptor::is_taken)
}

fn all() -> Vec<&'static Descriptor> {
    ALL.with_borrow(Clone::clone)
}
