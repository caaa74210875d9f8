//! Handlers that jump instead of returning: what they leave behind does not affect later signals.
//!
//! Each way out is taken three times at the same stack depth, so that the kernel puts its frame
//! where the previous one was.
#![cfg(atomseq_sections)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[cfg(target_arch = "x86_64")]
use atomseq::signal::Interrupted;
use atomseq::signal::{self, Chained, Event, Options};
use verify_signals::add_to_three;
use verify_support::jump;
use verify_support::pages::{Page, mask};
use verify_support::processes::in_fresh_process;
use verify_support::signals::{
    change_mask, install, install_plainly, install_with, is_blocked, raise,
};
use verify_support::this_test;

static JUMPS: AtomicUsize = AtomicUsize::new(0);

/// The handler of a program that recovers from faults and does not use atomseq.
extern "C" fn jump_back(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    JUMPS.fetch_add(1, SeqCst);
    // SAFETY: every test calls this inside `with_target`, with frames between that have nothing to
    // drop.
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

/// Takes a way out three times and checks that each of them jumped.
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

/// The fault is in the clone that another signal's delivery runs. The handler abandons that
/// rollforward explicitly and jumps as the C library does, three times. The signal that was
/// deferred to the end of the sequence arrives after each jump.
#[test]
fn out_of_a_rollforward_that_was_given_up_by_hand() {
    in_fresh_process(this_test!(), || {
        static PAGE: OnceLock<Page> = OnceLock::new();
        static FAULTS: AtomicUsize = AtomicUsize::new(0);
        static HANGUPS: AtomicUsize = AtomicUsize::new(0);
        fn page() -> &'static Page {
            PAGE.get_or_init(Page::new)
        }
        extern "C" fn on_fault(
            signal: i32,
            info: *mut libc::siginfo_t,
            context: *mut libc::c_void,
        ) {
            // The sequence faults first, then the clone that runs for the pending signal.
            if FAULTS.fetch_add(1, SeqCst).is_multiple_of(2) {
                assert!(!signal::abandon_rollforward());
                // SAFETY: the context's set.
                unsafe { libc::sigdelset(&mut *mask(context), libc::SIGHUP) };
                return;
            }
            assert!(signal::abandon_rollforward());
            assert!(!signal::abandon_rollforward());
            jump_back(signal, info, context);
        }
        extern "C" fn in_the_clone() {
            page().interrupt(0);
            change_mask(libc::SIG_BLOCK, &[libc::SIGHUP]);
            raise(libc::SIGHUP);
            // SAFETY: three words of the page, the second of which faults.
            unsafe { add_to_three::rolling(page().words(1) as usize, 99) };
        }
        install_plainly(libc::SIGSEGV, on_fault, 0, &[]);
        install(libc::SIGHUP, |_| _ = HANGUPS.fetch_add(1, SeqCst));
        for time in 1..=3 {
            jump::with_target(in_the_clone);
            page().release();
            assert_eq!(JUMPS.swap(0, SeqCst), 1, "the {time}. time");
            assert_eq!(FAULTS.load(SeqCst), 2 * time);
            assert_eq!(HANGUPS.load(SeqCst), time, "deferred until the jump");
            assert!(!is_blocked(libc::SIGSEGV) && !is_blocked(libc::SIGHUP));
            // SAFETY: three words of the page, which does not fault now.
            let added = unsafe { add_to_three::rolling(page().words(1) as usize, 99) };
            assert_eq!(added, time - 1, "no word but the first was changed before");
        }
    });
}

/// The handler that is installed over an adopted one passes signals on, and the handler below it
/// jumps.
#[test]
fn out_of_a_handler_that_an_adopted_one_passes_on_to() {
    in_fresh_process(this_test!(), || {
        static OVER: AtomicUsize = AtomicUsize::new(0);
        static PREVIOUS: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
            OVER.fetch_add(1, SeqCst);
            let previous = PREVIOUS.load(SeqCst);
            // SAFETY: what `sigaction` said was there before, a function of three arguments.
            let previous: verify_support::signals::Three = unsafe { std::mem::transmute(previous) };
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

/// The handler of a signal that the thread has kept. Signals deferred by other masks do not justify
/// unblocking what the program blocks.
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

/// Such a jump leaves a kept signal, which the kernel receives after a handler that runs inside a
/// sequence: the next mask finds nothing.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kept_signal_that_is_blocked_meanwhile_leaves_nothing_to_unblock() {
    in_fresh_process(this_test!(), || {
        static PAGE: OnceLock<Page> = OnceLock::new();
        static FAULTS: AtomicUsize = AtomicUsize::new(0);
        static HANDLED: AtomicUsize = AtomicUsize::new(0);
        fn jump(_: &mut Event<'_>) {
            // SAFETY: as in `jump_back`. (The library's own jump would leave nothing.)
            unsafe { jump::back() };
        }
        fn release(event: &mut Event<'_>) {
            assert_eq!(event.interrupted(), Interrupted::Inside);
            PAGE.get().expect("a page").release();
        }
        extern "C" fn keep_two() {
            let guard = signal::mask();
            raise(libc::SIGTSTP);
            // The second signal was not blocked together with the first: the thread keeps it, too.
            install(libc::SIGTTIN, |_| _ = HANDLED.fetch_add(1, SeqCst));
            raise(libc::SIGTTIN);
            drop(guard);
        }
        let page = PAGE.get_or_init(Page::new);
        signal::set_rollforward_limit(std::time::Duration::ZERO);
        install(libc::SIGTSTP, jump);
        install(libc::SIGUSR1, release);
        install(libc::SIGUSR2, |_| _ = HANDLED.fetch_add(1, SeqCst));
        install(libc::SIGSEGV, |_| {
            if FAULTS.fetch_add(1, SeqCst) == 0 {
                raise(libc::SIGUSR1);
            }
        });
        jump::with_target(keep_two);
        change_mask(libc::SIG_BLOCK, &[libc::SIGTTIN, libc::SIGUSR2]);
        page.interrupt(0);
        // SAFETY: three words of the page, the second of which faults.
        unsafe { add_to_three::rolling(page.words(1) as usize, 99) };
        raise(libc::SIGUSR2);
        drop(signal::mask());
        assert!(is_blocked(libc::SIGTTIN) && is_blocked(libc::SIGUSR2));
        assert_eq!(HANDLED.load(SeqCst), 0);
        change_mask(libc::SIG_UNBLOCK, &[libc::SIGTTIN, libc::SIGUSR2]);
        assert_eq!(HANDLED.load(SeqCst), 2);
    });
}

/// The same after a handler that ran `Inside` a sequence and has left it: no later signal waits for
/// that delivery.
#[cfg(target_arch = "x86_64")]
#[test]
fn out_of_the_handler_of_a_kept_signal_after_one_inside() {
    in_fresh_process(this_test!(), || {
        static PAGE: OnceLock<Page> = OnceLock::new();
        static FAULTS: AtomicUsize = AtomicUsize::new(0);
        static TRAPS: AtomicUsize = AtomicUsize::new(0);
        fn page() -> &'static Page {
            PAGE.get_or_init(Page::new)
        }
        fn jump(_: &mut Event<'_>) {
            JUMPS.fetch_add(1, SeqCst);
            // SAFETY: as in `jump_back`. (The library's own jump would leave nothing.)
            unsafe { jump::back() };
        }
        extern "C" fn keep_two() {
            let guard = signal::mask();
            raise(libc::SIGTSTP);
            // The second signal was not blocked together with the first: the thread keeps it, too.
            install(libc::SIGTTIN, jump);
            raise(libc::SIGTTIN);
            drop(guard);
        }
        extern "C" fn nowhere() -> ! {
            unreachable!("the kept signal's handler jumps before");
        }
        fn leave_the_sequence(event: &mut Event<'_>) {
            assert_eq!(event.interrupted(), Interrupted::Inside);
            page().release();
            let context = event.context().cast::<libc::ucontext_t>();
            // SAFETY: the context of this delivery; only a function that reads none of it resumes
            // from it.
            unsafe {
                let registers = &mut (*context).uc_mcontext.gregs;
                registers[libc::REG_RIP as usize] = nowhere as *const () as i64;
            }
        }
        extern "C" fn inside() {
            // SAFETY: three words of the page, the second of which faults.
            unsafe { add_to_three::rolling(page().words(1) as usize, 99) };
        }
        signal::set_rollforward_limit(std::time::Duration::ZERO);
        install(libc::SIGTRAP, |_| _ = TRAPS.fetch_add(1, SeqCst));
        install(libc::SIGTSTP, jump);
        install(libc::SIGUSR1, leave_the_sequence);
        install(libc::SIGSEGV, |_| {
            if FAULTS.fetch_add(1, SeqCst) == 0 {
                raise(libc::SIGUSR1);
            }
        });
        jump::with_target(keep_two);
        assert_eq!((JUMPS.load(SeqCst), signal::statistics().kept), (1, 2));
        page().interrupt(0);
        jump::with_target(inside);
        assert_eq!(JUMPS.load(SeqCst), 2);
        for time in 1..=3 {
            raise(libc::SIGTRAP);
            assert_eq!(TRAPS.load(SeqCst), time);
        }
    });
}
