//! Handlers that never return, because they jump: nothing that they leave behind changes what later signals meet.
//!
//! Each way out is taken three times at the same depth of the stack, so that the kernel puts its frame where the last
//! one was.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Chained, Event, Options};
use verify_signals::fresh::in_fresh_process;
use verify_signals::jump;
use verify_signals::signals::{
    change_mask, install, install_plainly, install_with, is_blocked, raise,
};
use verify_signals::this_test;

static JUMPS: AtomicUsize = AtomicUsize::new(0);

/// What a program does that recovers from faults and knows nothing of atomseq.
extern "C" fn jump_back(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    JUMPS.fetch_add(1, SeqCst);
    // SAFETY: every test calls this inside `with_target`, with frames between that have nothing to drop.
    unsafe { jump::back() };
}

extern "C" fn fault() {
    // SAFETY: faults, and is left by a jump.
    unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
}

extern "C" fn raise_bus() {
    raise(libc::SIGBUS);
}

extern "C" fn raise_ill() {
    raise(libc::SIGILL);
}

fn nothing(_: &mut Event<'_>) {}

/// Takes a way out three times.
fn three_times(body: extern "C" fn()) {
    for time in 1..=3 {
        jump::with_target(body);
        assert_eq!(JUMPS.swap(0, SeqCst), 1, "the {time}. time");
        assert!(!is_blocked(libc::SIGSEGV) && !is_blocked(libc::SIGUSR1));
    }
}

#[test]
fn out_of_an_adopted_handler() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, jump_back, 0, &[]);
        install(libc::SIGUSR1, nothing);
        three_times(fault);
    });
}

#[test]
fn out_of_an_adopted_handler_on_the_alternate_stack() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, jump_back, libc::SA_ONSTACK, &[]);
        install(libc::SIGUSR1, nothing);
        three_times(fault);
    });
}

#[test]
fn out_of_an_adopted_handler_that_other_signals_share() {
    in_fresh_process(this_test!(), || {
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL] {
            install_plainly(signal, jump_back, 0, &[]);
        }
        install(libc::SIGUSR1, nothing);
        three_times(fault);
        three_times(raise_bus);
        three_times(raise_ill);
        three_times(fault);
    });
}

#[test]
fn out_of_a_chained_handler_and_then_out_of_an_adopted_one() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, jump_back, 0, &[]);
        install(libc::SIGUSR1, nothing);
        install(libc::SIGSEGV, |event| {
            assert_eq!(event.chain(), Chained::Called);
        });
        three_times(fault);
        signal::uninstall(libc::SIGSEGV).expect("installed");
        three_times(fault);
    });
}

#[test]
fn out_of_a_handler_by_atomseq_s_jump() {
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGSEGV, leave, 0, &[]);
        extern "C" fn leave(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            JUMPS.fetch_add(1, SeqCst);
            // SAFETY: as in `jump_back`.
            unsafe { signal::siglongjmp(jump::environment(), 1) };
        }
        install(libc::SIGUSR1, nothing);
        three_times(fault);
    });
}

/// The handler that is installed over an adopted one passes on what it gets, and the one below it jumps.
#[test]
fn out_of_a_handler_that_an_adopted_one_passes_on_to() {
    in_fresh_process(this_test!(), || {
        static OVER: AtomicUsize = AtomicUsize::new(0);
        static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
            OVER.fetch_add(1, SeqCst);
            let previous = PREVIOUS.load(SeqCst);
            // SAFETY: what `sigaction` said was there before, a function of three arguments.
            let previous: verify_signals::signals::Three = unsafe { std::mem::transmute(previous) };
            previous(signal, info, context);
        }
        install_plainly(libc::SIGSEGV, jump_back, 0, &[]);
        install(libc::SIGUSR1, nothing);
        let previous = install_plainly(libc::SIGSEGV, pass_on, 0, &[]);
        PREVIOUS.store(previous.sa_sigaction, SeqCst);
        assert!(signal::repair().is_clean());
        install_with(libc::SIGUSR2, nothing, Options::new());
        three_times(fault);
        assert_eq!(OVER.load(SeqCst), 3);
    });
}

/// The handler of a signal that the thread has kept. What other masks ended for is no reason to
/// unblock what the program blocks.
#[test]
fn out_of_the_handler_of_a_kept_signal() {
    in_fresh_process(this_test!(), || {
        fn jump(_: &mut Event<'_>) {
            JUMPS.fetch_add(1, SeqCst);
            // SAFETY: as in `jump_back`: the guard is being dropped, and has no more to do.
            unsafe { signal::siglongjmp(jump::environment(), 1) };
        }
        extern "C" fn keep_one() {
            let guard = signal::mask();
            raise(libc::SIGTSTP);
            drop(guard);
        }
        install(libc::SIGUSR1, nothing);
        install(libc::SIGTSTP, jump);
        three_times(keep_one);
        assert!(!signal::is_masked());
        change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        drop(signal::mask());
        assert!(is_blocked(libc::SIGUSR1));
    });
}
