//! Handlers of libraries that know nothing of atomseq: they pass on to what they have found, and
//! put it back.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::log::log;
use crate::signals::{Three, install_plainly};

/// What each has found when it was installed.
pub static FOUND: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Logs its number plus 1000, and passes on to what it has found.
pub extern "C" fn pass_on<const N: usize>(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    log(1000 + N);
    // SAFETY: a handler of three arguments, called as the kernel would.
    unsafe {
        let found: Three = std::mem::transmute(FOUND[N].load(SeqCst));
        found(signal, info, context);
    }
}

/// Installs one of them over what is there; returns that.
pub fn install_over<const N: usize>(signal: i32) -> libc::sigaction {
    let old = install_plainly(signal, pass_on::<N>, 0, &[]);
    FOUND[N].store(old.sa_sigaction, SeqCst);
    old
}

/// Logs 2000, and passes on to nothing.
pub extern "C" fn lowest(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    log(2000);
}

/// Installs what was found.
pub fn put_back(signal: i32, old: &libc::sigaction) {
    // SAFETY: what was installed before.
    let result = unsafe { libc::sigaction(signal, old, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// Ignores a signal.
pub fn ignore(signal: i32) {
    // SAFETY: no function.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
