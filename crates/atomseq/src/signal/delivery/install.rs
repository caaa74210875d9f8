//! Installing and removing handlers. Not for handlers: takes a lock, memory, and the dynamic
//! linker's lock.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use super::super::event::Handler;
use super::super::options::{Error, Options};
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
    // The handler may be the first to use a static lock, and start-up is not for handlers.
    start();
    // First: a fork waits for the walk through the loaded objects.
    fork::watch().map_err(|errno| Error::Refused { signal, errno })?;
    if !refresh_table() {
        let errno = libc::ENOMEM;
        return Err(Error::Refused { signal, errno });
    }
    let changing = Changing::start();
    set_unblocking_hook(keep::end_in);
    // As it is before it is made to cover anything.
    let before = disposition(signal).map_err(|errno| Error::Refused { signal, errno })?;
    let was_managed = actions::has_handler(signal);
    actions::manage(signal);
    // First all others, then this one: from its first delivery on, it is covered.
    let covered = cover::cover(&changing);
    let result = covered.and_then(|()| take_over(signal, &before, handler, options));
    // One for one signal, which this has replaced, may have been used up meanwhile.
    if result.is_ok() && actions::manage(signal) {
        // Without memory, an audit finds what is not covered.
        let _ = cover::cover(&changing);
    }
    if result.is_err() && !was_managed {
        actions::no_longer_manage(signal);
    }
    result.map_err(|errno| Error::Refused { signal, errno })
}

/// Makes `handler` what is done on a signal, for which the kernel did `before`.
fn take_over(
    signal: c_int,
    before: &Disposition,
    handler: Handler,
    options: Options,
) -> Result<(), i32> {
    // Other code that installs a handler meanwhile was first, as if it had done so before: that one
    // is what is replaced.
    while !try_to_take_over(signal, before, handler, options)? {}
    Ok(())
}

/// As `take_over`; `false` if other code has installed a handler meanwhile.
fn try_to_take_over(
    signal: c_int,
    before: &Disposition,
    handler: Handler,
    options: Options,
) -> Result<bool, i32> {
    let newest = actions::newest_entry(signal);
    let old = actions::action(signal);
    let covered = disposition(signal)?;
    let (entry, previous) = match (old, cover::entry_of(&covered)) {
        // What was there before the first handler of ours; what has displaced that one is not
        // called.
        (Some(old), _) if actions::has_handler(signal) => (newest, old.previous.0),
        (_, Some(entry)) => {
            let below = actions::of_entry(signal, entry);
            (entry, below.map_or(Disposition::DEFAULT, Action::rest))
        }
        // One of our entries without an action has given way to what should be there, or other code
        // has installed this.
        _ if before.handler != covered.handler => (actions::entry_over(signal, &covered), covered),
        _ => (actions::entry_over(signal, before), *before),
    };
    let action = leak(Action {
        by: By::Handler(handler),
        options,
        previous: Previous(previous),
        spent: AtomicBool::new(false),
        retired: AtomicBool::new(false),
    })?;
    actions::set_action(signal, entry, action);
    let result = set_entry(signal, &covered);
    if result != Ok(true) {
        match old {
            Some(old) => actions::set_action(signal, newest, old),
            None => action.retired.store(true, Ordering::SeqCst),
        }
    }
    result
}

pub fn uninstall(signal: c_int) -> Result<(), Error> {
    check(signal)?;
    let _changing = Changing::start();
    if !actions::has_handler(signal) {
        return Err(Error::NotInstalled(signal));
    }
    let Some(action) = actions::action(signal) else {
        return Err(Error::NotInstalled(signal));
    };
    let was_ours = cover::put_back(signal, &action.previous.0, |now| {
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

/// What a delivery takes of the stack beside the kernel's frame and the handler: the mean of three
/// that interrupt each other, of which the last may go deeper than the handler. verify-signals
/// measures it; without optimisation it is more.
const DELIVERY: usize = if cfg!(debug_assertions) { 3072 } else { 2048 };

/// Three deliveries: the signal, another one that interrupts the handler, and a fault in a clone
/// that this one runs.
fn check_alternate_stack(signal: c_int, bytes: usize) -> Result<(), Error> {
    const AT_MINSIGSTKSZ: libc::c_ulong = 51;
    // SAFETY: plain old data.
    let mut stack: libc::stack_t = unsafe { core::mem::zeroed() };
    // SAFETY: asks only.
    if unsafe { libc::sigaltstack(core::ptr::null(), &mut stack) } != 0 {
        let errno = std::io::Error::last_os_error().raw_os_error();
        let errno = errno.unwrap_or_default();
        return Err(Error::Refused { signal, errno });
    }
    // SAFETY: looks up a number that the kernel passed at program start; 0 when it did not.
    let frame = unsafe { libc::getauxval(AT_MINSIGSTKSZ) as usize }.max(libc::MINSIGSTKSZ);
    let delivery = frame.saturating_add(DELIVERY);
    let needs = delivery.saturating_mul(3).saturating_add(bytes);
    if stack.ss_flags & libc::SS_DISABLE == 0 && stack.ss_size < needs {
        return Err(Error::AlternateStackTooSmall {
            has: stack.ss_size,
            needs,
        });
    }
    Ok(())
}

/// An action that passes everything on to `previous`.
pub fn adopted(previous: Disposition) -> Result<&'static Action, i32> {
    leak(Action {
        by: By::Adopted,
        options: Options {
            once: previous.has(libc::SA_RESETHAND),
            ..Options::new()
        },
        previous: Previous(previous),
        spent: AtomicBool::new(false),
        retired: AtomicBool::new(false),
    })
}

/// A handler may be using an action at any time, so none is freed. There are as many as there were
/// installations. Not by the global allocator: the lock is held that a fork takes, and a fork may
/// hold the allocator's.
fn leak(action: Action) -> Result<&'static Action, i32> {
    let place = memory::allocate(size_of::<Action>()).ok_or(libc::ENOMEM)?;
    let place = place.cast::<Action>();
    const { assert!(align_of::<Action>() <= 64) };
    // SAFETY: as large as an action, aligned to more than that, in nobody else's hands, and never
    // freed.
    unsafe {
        place.write(action);
        Ok(place.as_ref())
    }
}

/// Makes the kernel call our entry for a signal that has an action, with the flags and the mask
/// that go with it, in the place of `expected`. Returns whether that was there: if other code has
/// installed another handler meanwhile, that one stays.
pub fn set_entry(signal: c_int, expected: &Disposition) -> Result<bool, i32> {
    let (flags, mask) = flags_and_mask(signal);
    let entry = signal_entry(actions::newest_entry(signal));
    let is_expected =
        |found: &Disposition| are_same(found, expected) || controls::is_off(controls::MEANWHILE);
    actions::installing(signal, mask, || {
        // SAFETY: the entry is made for this.
        unsafe { install_entry_if(signal, entry, flags, mask, is_expected) }
    })
}

/// A fault's record holds the tag bits of the address (AArch64).
pub const SA_EXPOSE_TAGBITS: c_int = 0x800;

/// The flags (without `SA_SIGINFO`) and the mask that the kernel has to have for a signal of ours.
pub fn flags_and_mask(signal: c_int) -> (c_int, u64) {
    let Some(action) = actions::action(signal) else {
        return (0, 0);
    };
    let inherited = match action.by {
        By::Handler(_) => 0,
        By::Adopted => {
            action.previous.0.flags as c_int
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
