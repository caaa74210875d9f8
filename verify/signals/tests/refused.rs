//! An installation that the system refuses changes nothing. This program defines `sigaction`
//! itself, so it can refuse to set a disposition, and let it be read.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use atomseq::signal::{self, Error};
use verify_signals::{logged, lowest, note};
use verify_support::processes::in_fresh_process;
use verify_support::signals::{install, install_plainly, installed, put_back, raise};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;

static REFUSES: AtomicBool = AtomicBool::new(false);

type Sigaction =
    unsafe extern "C" fn(i32, *const libc::sigaction, *mut libc::sigaction) -> libc::c_int;

/// # Safety
/// The contract of the C library's function, which it calls.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: i32,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> libc::c_int {
    // SAFETY: this thread's error number; the C library's function of this name, with what the
    // caller vouches for.
    unsafe {
        if !new.is_null() && REFUSES.load(SeqCst) {
            *libc::__errno_location() = libc::EPERM;
            return -1;
        }
        let library = libc::dlsym(libc::RTLD_NEXT, c"sigaction".as_ptr());
        assert!(!library.is_null());
        std::mem::transmute::<*mut libc::c_void, Sigaction>(library)(signal, new, old)
    }
}

fn is_refused() {
    REFUSES.store(true, SeqCst);
    // SAFETY: the handler appends to a log.
    let result = unsafe { signal::install(ONE, note) };
    REFUSES.store(false, SeqCst);
    let (signal, errno) = (ONE, libc::EPERM);
    assert_eq!(result, Err(Error::Refused { signal, errno }));
}

#[test]
fn a_removed_handler_s_entry_stands_for_the_same_afterwards() {
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, lowest, 0, &[]);
        install(ONE, note);
        let ours = installed(ONE);
        signal::uninstall(ONE).expect("uninstalled");
        // SAFETY: no function.
        unsafe { libc::signal(ONE, libc::SIG_DFL) };
        is_refused();
        assert!(!signal::is_managed(ONE));
        put_back(ONE, &ours);
        raise(ONE);
        assert_eq!(logged(), [2000]);
    });
}

#[test]
fn a_handler_stays() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        install_plainly(ONE, lowest, 0, &[]);
        is_refused();
        assert!(signal::is_managed(ONE));
        install_plainly(ONE, lowest, 0, &[]);
        install(ONE, note);
        is_refused();
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
    });
}
