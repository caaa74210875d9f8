//! The signal that ends a slice. Its handler returns only when it is the interrupted thread's turn
//! again: see the [notes of the module](super#kernel-threads).

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use std::io;

use super::Error;
use super::linux::keep_errno;
use super::shared::Carrier;

/// Returns whether a handler can block this signal. Faults raise some signals, which no handler
/// blocks, others cannot be handled, and others are the C library's own.
fn is_blockable(signal: c_int) -> bool {
    !crate::NEVER_BLOCKED.contains(&signal)
        && ![libc::SIGKILL, libc::SIGSTOP].contains(&signal)
        && (1..=libc::SIGRTMAX()).contains(&signal)
        && !(32..libc::SIGRTMIN()).contains(&signal)
}

/// Returns whether this signal can end slices. A real-time signal is lost if the queue of signals
/// is full, and a request to suspend a thread anywhere sends one.
fn is_usable(signal: c_int) -> bool {
    is_blockable(signal) && signal < 32
}

fn handler() -> usize {
    tick as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize
}

fn disposition(signal: c_int) -> io::Result<usize> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only.
    match unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } {
        // SAFETY: plain old data.
        0 => Ok(unsafe { action.assume_init() }.sa_sigaction),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns whether the handler of runtimes is the signal's.
pub(crate) fn has_handler(signal: c_int) -> bool {
    disposition(signal).is_ok_and(|action| action == handler())
}

/// Installs the handler, which stays.
pub(super) fn install(signal: c_int) -> Result<(), Error> {
    if !is_usable(signal) {
        return Err(Error::SignalReserved(signal));
    }
    let _claims = crate::claim_signals();
    match disposition(signal).map_err(Error::Signal)? {
        libc::SIG_DFL | libc::SIG_IGN => {}
        already if already == handler() => return Ok(()),
        _ => return Err(Error::SignalTaken(signal)),
    }
    // SAFETY: plain old data; `tick` does only what a handler may do.
    let result = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // A thread that waits in the handler takes no other signal: one to the process goes to
        // another thread, one to this thread waits. Those of the C library (cancellation and
        // `setuid`) and those of faults stay.
        libc::sigfillset(&mut action.sa_mask);
        for other in 1..=libc::SIGRTMAX() {
            if !is_blockable(other) {
                libc::sigdelset(&mut action.sa_mask, other);
            }
        }
        libc::sigaction(signal, &action, ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(Error::Signal(io::Error::last_os_error())),
    }
}

/// Adds the signal to the calling thread's mask (`SIG_BLOCK`) or takes it out (`SIG_UNBLOCK`), and
/// returns whether it was in it.
pub(crate) fn change_mask(how: c_int, signal: c_int) -> bool {
    // SAFETY: changes the calling thread's mask; plain old data.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(how, &set, &mut before);
        libc::sigismember(&before, signal) == 1
    }
}

/// The handler.
extern "C" fn tick(_signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    // Relaxed: of this thread.
    let Some(carrier) = Carrier::get() else {
        return;
    };
    if !carrier.is_preemptible.load(Relaxed) {
        return carrier.has_missed.store(true, Relaxed);
    }
    keep_errno(|| carrier.shared().preempt(carrier));
}
