//! Other code installs handlers while atomseq does: after atomseq has read a disposition, and
//! before its own call of `sigaction`. This program defines that function itself, so each such
//! moment is reached every time.
#![cfg(atomseq_sections)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal;
use verify_signals::{log, logged, note, note_and_chain};
use verify_support::processes::in_fresh_process;
use verify_support::signals::{
    FAULTS, change_mask, install, install_plainly, installed, kernel_mask, raise,
};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const ABORT: usize = libc::SIGABRT as usize;

type Sigaction =
    unsafe extern "C" fn(i32, *const libc::sigaction, *mut libc::sigaction) -> libc::c_int;

/// An action of other code as soon as `sigaction` is called for this signal.
struct Meanwhile {
    signal: i32,
    act: fn(),
}

static MEANWHILE: Mutex<Option<Meanwhile>> = Mutex::new(None);
/// How often the action ran.
static MET: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// The contract of the C library's function, which it calls.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: i32,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> libc::c_int {
    let meanwhile = MEANWHILE
        .lock()
        .expect("one at a time")
        .take_if(|meanwhile| meanwhile.signal == signal && !new.is_null());
    if let Some(meanwhile) = meanwhile {
        MET.fetch_add(1, SeqCst);
        (meanwhile.act)();
    }
    // SAFETY: the C library's function of this name, with what the caller vouches for.
    unsafe {
        let library = libc::dlsym(libc::RTLD_NEXT, c"sigaction".as_ptr());
        assert!(!library.is_null());
        std::mem::transmute::<*mut libc::c_void, Sigaction>(library)(signal, new, old)
    }
}

/// Runs `action`, in the middle of which other code acts on `signal`.
fn with(signal: i32, act: fn(), action: impl FnOnce()) {
    *MEANWHILE.lock().expect("one at a time") = Some(Meanwhile { signal, act });
    let before = MET.load(SeqCst);
    action();
    assert_eq!(MET.load(SeqCst), before + 1, "the moment was met");
}

extern "C" fn earlier(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    log(1);
}

extern "C" fn later(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    log(2);
}

fn install_later_of_abort() {
    install_plainly(libc::SIGABRT, later, 0, &[]);
}

fn install_later() {
    install_plainly(ONE, later, 0, &[]);
}

fn set_default(signal: i32) {
    // SAFETY: no function.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

#[test]
fn a_handler_installed_during_an_adoption_is_the_one_that_is_adopted() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGABRT, earlier, 0, &[]);
        with(libc::SIGABRT, install_later_of_abort, || install(ONE, note));
        assert_ne!(
            installed(libc::SIGABRT).sa_sigaction,
            later as *const () as usize
        );
        assert!(signal::audit().is_clean());
        raise(libc::SIGABRT);
        assert_eq!(logged(), [2]);
        // The same in a repair, for a handler that has displaced the adopted one.
        install_plainly(libc::SIGABRT, earlier, 0, &[]);
        with(libc::SIGABRT, install_later_of_abort, || {
            assert!(signal::repair().is_clean());
        });
        raise(libc::SIGABRT);
        assert_eq!(logged(), [2, 2]);
    });
}

#[test]
fn a_default_action_set_during_an_adoption_stays() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, earlier, 0, &[]);
        with(
            libc::SIGSEGV,
            || set_default(libc::SIGSEGV),
            || install(ONE, note),
        );
        assert_eq!(installed(libc::SIGSEGV).sa_sigaction, libc::SIG_DFL);
        // A handler that is installed after that is adopted.
        install_plainly(libc::SIGSEGV, later, 0, &[]);
        assert!(signal::repair().is_clean());
        raise(libc::SIGSEGV);
        assert_eq!(logged(), [2]);
    });
}

#[test]
fn a_handler_for_one_signal_that_is_used_up_during_an_adoption_stays_used_up() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGABRT, earlier, libc::SA_RESETHAND, &[]);
        let use_it_up = || {
            let other = std::thread::spawn(|| {
                change_mask(libc::SIG_UNBLOCK, &[libc::SIGABRT]);
                raise(libc::SIGABRT);
            });
            other.join().expect("the thread returns");
        };
        with(libc::SIGABRT, use_it_up, || install(ONE, note));
        assert_eq!(logged(), [1]);
        assert_eq!(installed(libc::SIGABRT).sa_sigaction, libc::SIG_DFL);
    });
}

#[test]
fn a_handler_installed_during_a_repair_is_not_replaced_by_what_was_repaired() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let mut altered = installed(ONE);
        altered.sa_flags |= libc::SA_NODEFER;
        // SAFETY: what was installed, but for a flag.
        unsafe { libc::sigaction(ONE, &altered, std::ptr::null_mut()) };
        with(ONE, install_later, || _ = signal::repair());
        raise(ONE);
        assert_eq!(logged(), [2]);
    });
}

#[test]
fn a_handler_installed_during_an_installation_is_what_was_there_before() {
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, earlier, 0, &[]);
        with(ONE, install_later, || install(ONE, note_and_chain));
        raise(ONE);
        assert_eq!(logged(), [ONE as usize, 2]);
        signal::uninstall(ONE).expect("installed");
        raise(ONE);
        assert_eq!(logged(), [ONE as usize, 2, 2]);
    });
}

#[test]
fn faults_and_the_c_librarys_signals_are_not_blocked_while_handlers_are_changed() {
    static BLOCKED: AtomicU64 = AtomicU64::new(0);
    in_fresh_process(this_test!(), || {
        let note_mask = || BLOCKED.store(kernel_mask(), SeqCst);
        with(ONE, note_mask, || install(ONE, note));
        let blocked = BLOCKED.load(SeqCst);
        // The control: other signals are blocked.
        for signal in [ONE, libc::SIGABRT] {
            assert_ne!(blocked & 1 << (signal - 1), 0);
        }
        for signal in FAULTS.into_iter().chain([32, 33]) {
            assert_eq!(blocked & 1 << (signal - 1), 0, "{signal}");
        }
    });
}

#[test]
fn control_with_what_was_read_before_it_is_lost() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::MEANWHILE) };
        install_plainly(libc::SIGABRT, earlier, 0, &[]);
        with(libc::SIGABRT, install_later_of_abort, || install(ONE, note));
        raise(libc::SIGABRT);
        assert_eq!(logged(), [1]);
        assert!(signal::audit().is_clean(), "the audit cannot detect it");
    });
}

/// The same for a signal whose handler is adopted first.
#[test]
fn a_handler_of_abort_installed_during_an_installation_is_what_was_there_before() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGABRT, earlier, 0, &[]);
        install(ONE, note);
        with(libc::SIGABRT, install_later_of_abort, || {
            install(libc::SIGABRT, note_and_chain);
        });
        raise(libc::SIGABRT);
        assert_eq!(logged(), [ABORT, 2]);
        signal::uninstall(libc::SIGABRT).expect("installed");
        raise(libc::SIGABRT);
        assert_eq!(logged(), [ABORT, 2, 2]);
        assert!(signal::audit().is_clean());
    });
}
