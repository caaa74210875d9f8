//! The handler of faults of this crate's modules: a fault goes to the module that knows it, else to
//! the handler from before.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};

use atomseq::internals::{is_raised_by_fault, is_unmaskable};
use atomseq::signal::{self, Chained, Event};

use crate::rollforward::Outside;

/// Handles a fault of the module's own, and returns `true`; or returns `false`.
pub type Part = fn(&mut Event<'_>) -> bool;

/// A module that has a part.
#[derive(Clone, Copy)]
pub enum Module {
    Rollforward,
    Paging,
}

/// The parts as pointers; null for a module that has none yet.
static PARTS: [AtomicPtr<()>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// Returns whether a signal can wait for the end of a sequence. The others are never held back, so
/// that an instruction which raises one does not find it blocked: their handlers may run in the
/// middle of a sequence, of a rollforward and of a delivery.
pub fn can_wait(signal: i32) -> bool {
    !is_unmaskable(signal)
}

/// Installs the handler for these signals, with the part of a module beside those of others: a
/// second handler would take the place of the first, and is not reached by chaining.
///
/// # Safety
///
/// The part may run wherever a handler may.
pub unsafe fn install(module: Module, part: Part, signals: &[i32]) -> Result<(), signal::Error> {
    // Release: pairs with the Acquire in `handle`.
    PARTS[module as usize].store(part as *mut (), Ordering::Release);
    // SAFETY: `handle` calls parts, for which the caller vouches.
    let mut results = signals
        .iter()
        .map(|&signal| unsafe { signal::install(signal, handle) });
    results.try_for_each(|result| result)
}

fn handle(event: &mut Event<'_>) {
    let mut knows = |module: Module| {
        // Acquire: pairs with the Release in `install`.
        let part = PARTS[module as usize].load(Ordering::Acquire);
        // SAFETY: null is `None`, and `install` stores only parts.
        let part = unsafe { mem::transmute::<*mut (), Option<Part>>(part) };
        part.is_some_and(|part| part(event))
    };
    if knows(Module::Rollforward) {
        return;
    }
    // What runs now may run sequences, and the fault may be in the middle of one.
    let _outside = Outside::in_fault();
    if knows(Module::Paging) {
        return;
    }
    match event.chain() {
        Chained::Called => {}
        Chained::Ignored if !is_raised_by_fault(event.signal(), event.info()) => {}
        Chained::Default | Chained::Ignored => event.default_action(),
    }
}
