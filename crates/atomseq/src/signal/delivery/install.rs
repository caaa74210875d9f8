//! Installs and removes handlers. Not async-signal-safe: takes a lock, memory, and the dynamic
//! linker's lock.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use super::super::event::Handler;
use super::super::options::{Error, Options};
use super::super::stack::check_alternate_stack;
use super::actions::{self, Action, By, Previous};
use super::cover;
use super::lock::{Changing, refresh_table};
use super::{controls, fork, keep};
use crate::arch::signal_entry;
use crate::percpu::memory;
use crate::platform::{
    Disposition, RESERVED, SIGNALS, are_same, bit, disposition, install_entry_if,
    set_unblocking_hook, start,
};

/// # Safety
/// As [`crate::signal::install_with`].
pub unsafe fn install(signal: c_int, handler: Handler, options: Options) -> Result<(), Error> {
    check(signal)?;
    if let Some(bytes) = options.stack {
        check_alternate_stack(signal, bytes)?;
    }
    // The handler may be the first to use a static lock, and start-up must not run in a handler.
    start();
    // Before the walk through the loaded objects, for which a fork must wait.
    fork::watch().map_err(|errno| Error::Refused { signal, errno })?;
    if !refresh_table() {
        let errno = libc::ENOMEM;
        return Err(Error::Refused { signal, errno });
    }
    let changing = Changing::start();
    set_unblocking_hook(keep::end_in);
    cover::remove_used_up(&changing);
    // Before it is made to cover anything.
    let before = disposition(signal).map_err(|errno| Error::Refused { signal, errno })?;
    let was_managed = actions::has_handler(signal);
    actions::manage(signal);
    // All other handlers first, so that this one is covered from its first delivery on.
    let covered = cover::cover(&changing);
    let result = covered.and_then(|()| take_over(signal, &before, handler, options));
    // If the replaced handler was for one signal, it may have been used up meanwhile, which has
    // stopped managing the signal.
    if result.is_ok() && actions::manage(signal) {
        // Without memory, an audit reports what is not covered.
        let _ = cover::cover(&changing);
    }
    if result.is_err() && !was_managed {
        actions::no_longer_manage(signal);
    }
    result.map_err(|errno| Error::Refused { signal, errno })
}

/// Makes `handler` the action of a signal whose disposition was `before`.
fn take_over(
    signal: c_int,
    before: &Disposition,
    handler: Handler,
    options: Options,
) -> Result<(), i32> {
    // A handler that other code installs meanwhile counts as installed before: this replaces it.
    while !try_to_take_over(signal, before, handler, options)? {}
    Ok(())
}

/// As `take_over`, but returns `false` if other code has installed a handler meanwhile.
fn try_to_take_over(
    signal: c_int,
    before: &Disposition,
    handler: Handler,
    options: Options,
) -> Result<bool, i32> {
    let newest = actions::newest_entry(signal);
    let covered = disposition(signal)?;
    // One of ours that signals still reach: this takes its place.
    let old = actions::action(signal).filter(|_| actions::has_handler(signal));
    let in_place = old.filter(|old| !cover::is_displaced(signal, &covered, old));
    let (entry, previous) = match (in_place, cover::entry_of(&covered)) {
        // What was there before our first handler.
        (Some(in_place), _) => (newest, in_place.previous.disposition()),
        (None, Some(entry)) => {
            let below = actions::of_entry(signal, entry);
            let rest = below.map_or(Disposition::DEFAULT, Action::rest);
            match below.is_some_and(Action::is_used_up) {
                true => (actions::entry_over(signal, &rest), rest),
                false => (entry, rest),
            }
        }
        // An entry of ours without an action was replaced by what it stands for, or other code has
        // installed this.
        _ if before.handler != covered.handler => (actions::entry_over(signal, &covered), covered),
        _ => (actions::entry_over(signal, before), *before),
    };
    let action = leak(Action::new(
        By::Handler(handler),
        options,
        Previous::new(previous),
    ))?;
    let [of_entry, of_newest] = [entry, newest].map(|entry| actions::of_entry(signal, entry));
    actions::set_action(signal, entry, action);
    let result = set_entry(signal, &covered);
    if result != Ok(true) {
        action.retired.store(true, Ordering::SeqCst);
        for (entry, before) in [(entry, of_entry), (newest, of_newest)] {
            if let Some(before) = before {
                actions::set_action(signal, entry, before);
            }
        }
    } else if let Some(displaced) = old.filter(|_| in_place.is_none()) {
        // Its entry stands for what was there before it, for the handler that has displaced it
        // passes signals on to that entry.
        displaced.retired.store(true, Ordering::SeqCst);
    }
    result
}

pub fn uninstall(signal: c_int) -> Result<(), Error> {
    check(signal)?;
    let changing = Changing::start();
    cover::remove_used_up(&changing);
    if !actions::has_handler(signal) {
        return Err(Error::NotInstalled(signal));
    }
    let Some(action) = actions::action(signal) else {
        return Err(Error::NotInstalled(signal));
    };
    let was_ours = cover::put_back(signal, &action.previous.disposition(), |now| {
        cover::leads_to(signal, now, action)
    });
    if !was_ours.map_err(|errno| Error::Refused { signal, errno })? {
        return Err(Error::Displaced(signal));
    }
    action.retired.store(true, Ordering::SeqCst);
    actions::no_longer_manage(signal);
    Ok(())
}

fn check(signal: c_int) -> Result<(), Error> {
    if !(1..=SIGNALS).contains(&signal) {
        return Err(Error::NoSignal(signal));
    }
    if signal == libc::SIGKILL || signal == libc::SIGSTOP || RESERVED.contains(&signal) {
        return Err(Error::Reserved(signal));
    }
    Ok(())
}

/// Makes an action that passes every signal on to `previous`.
pub fn adopted(previous: Disposition) -> Result<&'static Action, i32> {
    let options = Options {
        once: previous.has(libc::SA_RESETHAND),
        ..Options::new()
    };
    leak(Action::new(By::Adopted, options, Previous::new(previous)))
}

/// Allocates an action and never frees it, because a handler may be using it at any time. Each
/// installation leaks one. Does not use the global allocator: this thread holds the lock that a
/// fork takes, and a fork may hold the allocator's.
fn leak(action: Action) -> Result<&'static Action, i32> {
    let place = memory::allocate(size_of::<Action>()).ok_or(libc::ENOMEM)?;
    let place = place.cast::<Action>();
    const { assert!(align_of::<Action>() <= 64) };
    // SAFETY: the memory is large enough and sufficiently aligned, owned by this function, and
    // never freed.
    unsafe {
        place.write(action);
        Ok(place.as_ref())
    }
}

/// Replaces `expected` by our newest entry for a signal that has an action, with the action's flags
/// and mask. Returns whether `expected` was installed. If other code has installed another handler
/// meanwhile, that one stays.
pub fn set_entry(signal: c_int, expected: &Disposition) -> Result<bool, i32> {
    let (flags, mask) = flags_and_mask(signal);
    let entry = signal_entry(actions::newest_entry(signal));
    let is_expected =
        |found: &Disposition| are_same(found, expected) || controls::is_off(controls::MEANWHILE);
    actions::installing(signal, mask, || {
        // SAFETY: an entry handles its signal on every thread, at every instruction.
        unsafe { install_entry_if(signal, entry, flags, mask, is_expected) }
    })
}

/// Makes a fault's record contain the tag bits of the address (AArch64).
pub const SA_EXPOSE_TAGBITS: c_int = 0x800;

/// Returns the flags (without `SA_SIGINFO`) and the mask with which the entry of a signal must be
/// installed.
pub fn flags_and_mask(signal: c_int) -> (c_int, u64) {
    let Some(action) = actions::action(signal) else {
        return (0, 0);
    };
    let inherited = match action.by {
        By::Handler(_) => 0,
        By::Adopted => {
            action.previous.disposition().flags as c_int
                & (libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER | SA_EXPOSE_TAGBITS)
        }
    };
    let mut flags = inherited;
    if let By::Handler(_) = action.by {
        if !action.options.interrupting {
            flags |= libc::SA_RESTART;
        }
        if action.options.stack.is_some() {
            flags |= libc::SA_ONSTACK;
        }
    }
    let mask = action.kernel_mask(signal) & !bit(signal);
    (flags, mask)
}
