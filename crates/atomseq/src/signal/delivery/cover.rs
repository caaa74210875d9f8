//! Covering: no managed signal may arrive while any handler runs, since a handler may have interrupted a sequence.
//! So the handlers of others get the managed signals added to their masks, and those of faults are adopted: called
//! by way of this module.

use core::ffi::c_int;

use super::super::audit::{Audit, Fault};
use super::actions::{self, By, FAULTS};
use super::install::{Changing, adopted, flags_and_mask, set_entry};
use super::{controls, entry};
use crate::platform::{Disposition, Entry, SIGNALS, disposition, replace_disposition};
use crate::sequence::table;

/// Whose handler it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This copy of atomseq's.
    Atomseq,
    /// Someone else's function.
    Other,
    /// The kernel's: the default action, or nothing.
    Kernel,
}

pub fn owner(disposition: &Disposition) -> Owner {
    if !disposition.is_function() {
        return Owner::Kernel;
    }
    if entry as Entry as usize == disposition.handler {
        Owner::Atomseq
    } else {
        Owner::Other
    }
}

/// What is wrong with what the kernel does on `signal`.
fn examine(signal: c_int, now: &Disposition) -> Option<Fault> {
    let uncovered = actions::managed() & !now.mask != 0;
    match owner(now) {
        Owner::Atomseq => {
            let (flags, mask) = flags_and_mask(signal);
            let watched = libc::SA_NODEFER
                | libc::SA_RESETHAND
                | libc::SA_ONSTACK
                | libc::SA_SIGINFO
                | libc::SA_RESTART;
            let same_flags = (now.flags as c_int ^ (flags | libc::SA_SIGINFO)) & watched == 0;
            // A mask that was made when more signals were managed does no harm.
            (!same_flags || mask & !now.mask != 0).then_some(Fault::Altered)
        }
        _ if actions::has_handler(signal) => Some(Fault::Displaced),
        Owner::Kernel => None,
        Owner::Other if uncovered => Some(Fault::Uncovered),
        // One that was adopted, and that another one was installed over, may be called by that.
        Owner::Other if FAULTS.contains(&signal) && actions::action(signal).is_none() => {
            Some(Fault::Unadopted)
        }
        Owner::Other => None,
    }
}

/// Calls with every signal that has something wrong.
fn each_fault(mut with: impl FnMut(c_int, Fault, &Disposition)) {
    for signal in 1..=SIGNALS {
        // The kernel refuses to tell about none.
        let Ok(now) = disposition(signal) else {
            continue;
        };
        if let Some(fault) = examine(signal, &now) {
            with(signal, fault, &now);
        }
    }
}

/// Repairs what can be repaired.
pub fn cover(_changing: &Changing) {
    if controls::is_off(controls::WIDENING) {
        return;
    }
    each_fault(|signal, fault, now| match fault {
        Fault::Altered => _ = set_entry(signal),
        Fault::Uncovered if FAULTS.contains(&signal) && actions::action(signal).is_none() => {
            adopt(signal, now)
        }
        Fault::Unadopted => adopt(signal, now),
        Fault::Uncovered => widen(signal, now),
        Fault::Displaced if actions::managed() & !now.mask != 0 && now.is_function() => {
            widen(signal, now)
        }
        Fault::Displaced => {}
    });
}

/// Adds the managed signals to the mask of someone else's handler.
fn widen(signal: c_int, now: &Disposition) {
    let mut expected = *now;
    loop {
        let wider = Disposition {
            mask: expected.mask | actions::managed(),
            ..expected
        };
        // SAFETY: as the kernel told, with another mask.
        match unsafe { replace_disposition(signal, &wider) } {
            // Somebody has installed another handler since it was read: that one is to stay.
            Ok(found) if found != expected && found.is_function() => expected = found,
            Ok(found) if found != expected => {
                // SAFETY: no function in it.
                let _ = unsafe { replace_disposition(signal, &found) };
                return;
            }
            _ => return,
        }
    }
}

/// Puts our entry in the place of a handler of someone else's, which is called by way of it from then on.
fn adopt(signal: c_int, now: &Disposition) {
    let old = actions::action(signal);
    let older = old.filter(|_| owner(now) == Owner::Other);
    match old {
        // A handler installed through this module stays the one that is called.
        Some(action) if matches!(action.by, By::Handler(_)) => {}
        _ => actions::set_action(signal, Some(adopted(*now, older))),
    }
    // The kernel accepts for this signal what it has accepted before.
    let _ = set_entry(signal);
}

/// As [`crate::signal::audit`].
pub fn audit() -> Audit {
    table::refresh();
    let _changing = Changing::start();
    find()
}

fn find() -> Audit {
    let mut audit = Audit::CLEAN;
    // Nothing is managed yet: nothing is promised.
    if actions::managed() != 0 {
        each_fault(|signal, fault, _| audit.add(signal, fault));
    }
    audit
}

/// As [`crate::signal::repair`].
pub fn repair() -> Audit {
    table::refresh();
    let changing = Changing::start();
    if actions::managed() != 0 {
        cover(&changing);
    }
    find()
}
