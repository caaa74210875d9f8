//! Covers the handlers of other code: no managed signal may arrive while any handler runs, because
//! the handler may have interrupted a sequence. So the managed signals are added to the masks of
//! these handlers. Handlers of signals that cannot be blocked are adopted: called through this
//! module.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use super::super::audit::{Audit, Fault};
use super::actions::{self, Action, ENTRIES, FAULT_SET};
use super::install::{SA_EXPOSE_TAGBITS, adopted, flags_and_mask, set_entry};
use super::lock::{Changing, refresh_table};
use super::{controls, copies};
use crate::arch::signal_entry;
use crate::platform::{Disposition, RESERVED, SIGNALS, bit, disposition, replace_disposition_if};
use crate::sequence::table;

/// Returns the number of the entry in a disposition; `None` if it contains no entry of this copy of
/// atomseq.
pub fn entry_of(disposition: &Disposition) -> Option<usize> {
    entry_at(disposition.handler)
}

/// As [`entry_of`], for a handler's address.
pub fn entry_at(handler: usize) -> Option<usize> {
    (0..ENTRIES).find(|&entry| signal_entry(entry) as usize == handler)
}

/// Returns whether a disposition of `signal` leads to this very action, possibly through an entry
/// that is not the newest one.
pub fn leads_to(signal: c_int, disposition: &Disposition, action: &Action) -> bool {
    let called = entry_of(disposition).and_then(|entry| actions::of_entry(signal, entry));
    called.is_some_and(|called| core::ptr::eq(called, action))
}

/// Returns whether a disposition leads to the current action of `signal`.
pub fn leads_to_action(signal: c_int, disposition: &Disposition) -> bool {
    actions::action(signal).is_some_and(|action| leads_to(signal, disposition, action))
}

/// Returns whether a function that does not lead to `action`, the current one of `signal`, is
/// installed. An entry of another copy of atomseq that has adopted ours leads to it.
pub fn is_displaced(signal: c_int, now: &Disposition, action: &Action) -> bool {
    now.is_function()
        && !leads_to(signal, now, action)
        && !is_adopted_by_another_copy(signal, now, Some(action))
}

/// Returns what is wrong with the disposition of `signal`.
fn examine(signal: c_int, now: &Disposition) -> Option<Fault> {
    let has_handler = actions::has_handler(signal);
    if let Some(entry) = entry_of(now) {
        let is_live = actions::live_of_entry(signal, entry).is_some();
        return match leads_to_action(signal, now) {
            true => is_altered(signal, now).then_some(Fault::Altered),
            false if has_handler => Some(Fault::Displaced),
            // An older adopted handler: the newer one has put back what it found.
            false if is_live => Some(Fault::Altered),
            // No other code has put it back. Each change of handlers removes it.
            false if actions::of_entry(signal, entry).is_some_and(Action::lingers) => None,
            false => Some(Fault::PutBack),
        };
    }
    match has_handler {
        true if is_adopted_by_another_copy(signal, now, actions::action(signal)) => None,
        true => Some(Fault::Displaced),
        false => examine_others(signal, now),
    }
}

/// As [`examine`], for a disposition of other code and a signal that has, or will have, no handler
/// here.
fn examine_others(signal: c_int, now: &Disposition) -> Option<Fault> {
    if !now.is_function() || is_adopted_by_another_copy(signal, now, None) {
        return None;
    }
    // Also if it was installed over an adopted handler: the kernel calls it first, in the middle of
    // deliveries.
    if actions::is_unmaskable(signal) {
        return Some(Fault::Unadopted);
    }
    (others_managed(signal) & !now.mask != 0).then_some(Fault::Uncovered)
}

/// Returns what a handler of other code for `signal` must block. (The kernel blocks the signal
/// itself, unless that handler has `SA_NODEFER`.)
fn others_managed(signal: c_int) -> u64 {
    actions::managed() & !bit(signal)
}

/// Returns whether the kernel calls another copy of atomseq that passes the signal on to `action`,
/// or to any action of this copy if that is `None`.
fn is_adopted_by_another_copy(signal: c_int, now: &Disposition, action: Option<&Action>) -> bool {
    let is_meant = |below: &Action| action.is_none_or(|action| core::ptr::eq(action, below));
    actions::is_unmaskable(signal)
        && now.is_function()
        && copies::action_below(signal, now.handler).is_some_and(is_meant)
}

/// Returns whether our entry is installed with another mask or other flags than its action needs.
fn is_altered(signal: c_int, now: &Disposition) -> bool {
    const WATCHED: c_int = libc::SA_NODEFER
        | libc::SA_RESETHAND
        | libc::SA_ONSTACK
        | libc::SA_SIGINFO
        | libc::SA_RESTART
        | SA_EXPOSE_TAGBITS;
    let (flags, mask) = flags_and_mask(signal);
    let are_same_flags = (now.flags as c_int ^ (flags | libc::SA_SIGINFO)) & WATCHED == 0;
    // A mask from a time when more signals were managed does no harm. Fault signals in it do: a
    // fault of the handler ends the process. (The signal itself is blocked in any case.)
    let beyond = now.mask & !(mask | bit(signal)) & FAULT_SET;
    !are_same_flags || mask & !now.mask != 0 || beyond != 0
}

/// Calls `with` for each signal that has a fault.
fn each_fault(
    signals: impl IntoIterator<Item = c_int>,
    mut with: impl FnMut(c_int, Fault, &Disposition),
) {
    for signal in signals {
        match disposition(signal) {
            Ok(now) => {
                if let Some(fault) = examine(signal, &now) {
                    with(signal, fault, &now);
                }
            }
            // An emulator may have fewer signals.
            Err(libc::EINVAL) => {}
            Err(_) => with(signal, Fault::Unknown, &Disposition::DEFAULT),
        }
    }
}

/// Repairs what can be repaired. Returns an error number if there is no memory to adopt a handler.
pub fn cover(_changing: &Changing) -> Result<(), i32> {
    let mut result = Ok(());
    if controls::is_off(controls::WIDENING) {
        return result;
    }
    each_fault(1..=SIGNALS, |signal, fault, now| match fault {
        Fault::Altered => reinstall(signal, now),
        Fault::PutBack => remove_again(signal, now),
        Fault::Unadopted => result = result.and(adopt(signal, now)),
        Fault::Unknown => {}
        Fault::Displaced if !now.is_function() => {}
        Fault::Uncovered | Fault::Displaced => widen(signal, now, actions::managed()),
    });
    result
}

/// Installs our entry again, with the flags and the mask that it needs. An older entry that other
/// code has put back becomes the newest one.
fn reinstall(signal: c_int, now: &Disposition) {
    if let Some(entry) = entry_of(now) {
        if let Some(action) = actions::of_entry(signal, entry) {
            actions::set_action(signal, entry, action);
        }
    }
    // What other code has installed meanwhile stays, and the kernel accepts for this signal what it
    // has accepted before.
    let _ = set_entry(signal, now);
}

/// Replaces an entry that other code has put back by what the entry stands for.
fn remove_again(signal: c_int, now: &Disposition) {
    let retired = entry_of(now).and_then(|entry| actions::of_entry(signal, entry));
    let rest = retired.map_or(Disposition::DEFAULT, Action::rest);
    // What other code has installed meanwhile stays, and the kernel accepts for this signal what it
    // has accepted before.
    let _ = put_back(signal, &rest, |found| found == now);
}

/// Replaces the entries of used-up handlers for one signal by the default action.
pub fn remove_used_up(_changing: &Changing) {
    let mut signals = actions::take_used_up();
    while signals != 0 {
        let signal = signals.trailing_zeros() as c_int + 1;
        signals &= signals - 1;
        let used_up = (0..ENTRIES).filter_map(|entry| actions::of_entry(signal, entry));
        for action in used_up.filter(|action| action.lingers()) {
            let is_entry = |now: &Disposition| leads_to(signal, now, action);
            // What other code has installed stays. SAFETY: the disposition contains no function.
            // The kernel has no reason to refuse it.
            let _ = unsafe { replace_disposition_if(signal, &Disposition::DEFAULT, is_entry) };
            action.removed.store(true, Ordering::SeqCst);
        }
    }
}

/// Replaces one of our entries, for which `is_entry` holds, by `below`. The same system call covers
/// or adopts that, because it may interrupt a sequence at once. Returns whether the entry was
/// installed. Without memory to adopt `below`, installs it as it is; an audit reports it.
pub fn put_back(
    signal: c_int,
    below: &Disposition,
    is_entry: impl Fn(&Disposition) -> bool,
) -> Result<bool, i32> {
    let fault = examine_others(signal, below).filter(|_| !controls::is_off(controls::WIDENING));
    let adopted = match fault {
        Some(Fault::Unadopted) => adopted(*below).ok(),
        _ => None,
    };
    let Some(adopted) = adopted else {
        let mask = match fault {
            Some(Fault::Uncovered) => others_managed(signal),
            _ => 0,
        };
        let covered = Disposition {
            mask: below.mask | mask,
            ..*below
        };
        // SAFETY: `below` was read from the kernel; its mask may be wider.
        return unsafe { replace_disposition_if(signal, &covered, is_entry) };
    };
    let newest = actions::newest_entry(signal);
    let before = actions::of_entry(signal, newest);
    let entry = match actions::has_handler(signal) {
        // It was there before that entry, so it cannot know the entry.
        true => newest,
        false => actions::entry_over(signal, below),
    };
    loop {
        let now = disposition(signal)?;
        if !is_entry(&now) {
            return Ok(false);
        }
        actions::set_action(signal, entry, adopted);
        let result = set_entry(signal, &now);
        if result == Ok(true) {
            return result;
        }
        if let Some(before) = before {
            actions::set_action(signal, newest, before);
        }
        result?;
    }
}

/// Adds signals to the mask of a handler of other code: of `now`, or of one that is installed
/// meanwhile.
fn widen(signal: c_int, now: &Disposition, more: u64) {
    let mut now = *now;
    while now.is_function() && more & !now.mask != 0 {
        let wider = Disposition {
            mask: now.mask | more,
            ..now
        };
        // SAFETY: read from the kernel; only the mask differs.
        let is_wider = unsafe { replace_disposition_if(signal, &wider, |found| *found == now) };
        match (is_wider, disposition(signal)) {
            (Ok(false), Ok(found)) => now = found,
            _ => return,
        }
    }
}

/// Adopts a handler of other code, `now` or one that is installed meanwhile: replaces it by our
/// entry, which calls it from then on. Returns an error number if there is no memory.
fn adopt(signal: c_int, now: &Disposition) -> Result<(), i32> {
    let mut now = *now;
    while examine(signal, &now) == Some(Fault::Unadopted) {
        let action = adopted(now)?;
        actions::set_action(signal, actions::entry_over(signal, &now), action);
        if set_entry(signal, &now) == Ok(true) {
            return Ok(());
        }
        action.retired.store(true, Ordering::SeqCst);
        match disposition(signal) {
            Ok(found) => now = found,
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

/// Implements [`crate::signal::audit`].
#[track_caller]
pub fn audit() -> Audit {
    find_sequences();
    let changing = Changing::start();
    remove_used_up(&changing);
    cover_reserved(&changing);
    find()
}

/// Covers the C library's own handlers. It installs them late, with the first thread and the first
/// `pthread_cancel`. No program can avoid or change them, so they are no finding.
fn cover_reserved(_changing: &Changing) {
    if !actions::is_any_managed() || controls::is_off(controls::WIDENING) {
        return;
    }
    each_fault(RESERVED.iter().copied(), |signal, fault, now| {
        if fault == Fault::Uncovered {
            widen(signal, now, actions::managed());
        }
    });
}

fn find() -> Audit {
    let mut audit = Audit::CLEAN;
    // While nothing is managed, nothing is promised.
    if actions::is_any_managed() {
        let signals = (1..=SIGNALS).filter(|signal| !RESERVED.contains(signal));
        each_fault(signals, |signal, fault, _| audit.add(signal, fault));
        audit.unprotected = table::refused();
    }
    audit
}

/// Implements [`crate::signal::repair`].
#[track_caller]
pub fn repair() -> Audit {
    find_sequences();
    let changing = Changing::start();
    remove_used_up(&changing);
    if actions::is_any_managed() {
        // `find` reports what there is no memory to adopt.
        let _ = cover(&changing);
    }
    find()
}

/// Refreshes the table of sequences, without which an audit would miss findings. Does nothing while
/// no signal is managed: then an audit examines nothing, and forks, which wait for a walk through
/// the loaded objects, may not be watched yet.
#[track_caller]
fn find_sequences() {
    if !actions::is_any_managed() {
        return;
    }
    assert!(
        refresh_table(),
        "no memory for the table of sequences: allow this process a few more pages of memory"
    );
}
