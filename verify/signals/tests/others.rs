//! Handlers of libraries that do not use atomseq keep working, and sequences stay protected from
//! the signals that they let in.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event, Fault, Finding};
use verify_signals::{add_to_three, clear_log, log, log_three, logged, note};
use verify_support::pages::{Page, install_fault_handler, mask, program_counter};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::{
    change_mask, findings, holds, install, install_plainly, installed, is_blocked, raise,
};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const TWO: i32 = libc::SIGUSR2;
/// A signal of another library.
const THEIRS: i32 = libc::SIGWINCH;

extern "C" fn theirs(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    log(1);
    raise(ONE);
    log(2);
}

extern "C" fn of_one_argument(signal: i32) {
    log(3000 + signal as usize);
}

#[test]
fn a_handler_from_before_keeps_working_and_lets_nothing_in() {
    in_fresh_process(this_test!(), || {
        install_plainly(
            THEIRS,
            theirs,
            libc::SA_RESTART | libc::SA_NODEFER,
            &[libc::SIGHUP],
        );
        let before = installed(THEIRS);
        install(ONE, note);
        let after = installed(THEIRS);
        assert_eq!(
            (after.sa_sigaction, after.sa_flags),
            (before.sa_sigaction, before.sa_flags)
        );
        assert!(holds(&after.sa_mask, ONE) && holds(&after.sa_mask, libc::SIGHUP));
        assert!(!holds(&after.sa_mask, TWO) && !holds(&after.sa_mask, libc::SIGSEGV));
        assert_eq!(findings(), []);
        raise(THEIRS);
        assert_eq!(logged(), [1, 2, ONE as usize]);
        // A signal that becomes managed later is added, too.
        install(TWO, note);
        assert!(holds(&installed(THEIRS).sa_mask, TWO));
    });
}

#[test]
fn control_without_widening_signals_get_in() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::WIDENING) };
        install_plainly(THEIRS, theirs, 0, &[]);
        install(ONE, note);
        raise(THEIRS);
        assert_eq!(logged(), [1, ONE as usize, 2]);
        assert!(findings().contains(&Finding {
            signal: THEIRS,
            fault: Fault::Uncovered
        }));
    });
}

#[test]
fn a_handler_installed_later_is_reported_and_repaired() {
    in_fresh_process(this_test!(), || {
        assert_eq!(findings(), [], "no signal is managed yet");
        install(ONE, note);
        install_plainly(THEIRS, theirs, 0, &[]);
        assert_eq!(
            findings(),
            [Finding {
                signal: THEIRS,
                fault: Fault::Uncovered
            }]
        );
        let text = signal::audit().to_string();
        assert!(
            text.contains("signal 28") && text.contains("repair()"),
            "{text}"
        );
        raise(THEIRS);
        assert_eq!(logged(), [1, ONE as usize, 2]);
        assert!(signal::repair().is_clean());
        clear_log();
        raise(THEIRS);
        assert_eq!(logged(), [1, 2, ONE as usize]);
        // A handler that itself blocks all signals is not reported.
        let all: Vec<i32> = (1..=64)
            .filter(|signal| ![32, 33].contains(signal))
            .collect();
        install_plainly(THEIRS, theirs, 0, &all);
        assert_eq!(findings(), []);
    });
}

/// (qemu-user has no seccomp.)
#[cfg(target_arch = "x86_64")]
#[test]
fn what_the_kernel_refuses_to_tell_is_reported() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        assert_eq!(findings(), []);
        install_plainly(THEIRS, theirs, 0, &[]);
        verify_support::sandbox::refuse_all(&[libc::SYS_rt_sigaction]);
        for audit in [signal::audit(), signal::repair()] {
            for signal in [ONE, TWO, THEIRS, libc::SIGSEGV, 64] {
                let fault = Fault::Unknown;
                let is_it = |finding| finding == Finding { signal, fault };
                assert!(audit.findings().any(is_it), "{signal}: {audit}");
            }
            assert!(audit.to_string().contains("allow rt_sigaction"));
        }
    });
}

/// Also where no maskable signal is managed.
#[test]
fn a_handler_over_one_of_a_signal_that_cannot_be_blocked_is_reported() {
    in_fresh_process(this_test!(), || {
        for signal in [libc::SIGABRT, libc::SIGSEGV] {
            install(signal, note);
            assert_eq!(findings(), []);
            install_plainly(signal, theirs, 0, &[]);
            let displaced = Finding {
                signal,
                fault: Fault::Displaced,
            };
            assert_eq!(findings(), [displaced]);
            install(signal, note);
            assert_eq!(findings(), []);
            signal::uninstall(signal).expect("installed");
        }
    });
}

/// A handler of a signal that nothing blocks is called through atomseq, so that it does not run in
/// the middle of a delivery.
#[test]
fn a_handler_of_abort_is_adopted() {
    in_fresh_process(this_test!(), || {
        extern "C" fn on_abort(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
            log(signal as usize);
        }
        install_plainly(libc::SIGABRT, on_abort, 0, &[libc::SIGHUP]);
        install(ONE, note);
        let now = installed(libc::SIGABRT);
        assert_ne!(now.sa_sigaction, on_abort as *const () as usize);
        raise(libc::SIGABRT);
        assert_eq!(logged(), [libc::SIGABRT as usize]);
        install_plainly(libc::SIGABRT, on_abort, 0, &[]);
        let unadopted = Finding {
            signal: libc::SIGABRT,
            fault: Fault::Unadopted,
        };
        assert_eq!(findings(), [unadopted]);
        assert!(signal::repair().is_clean());
        raise(libc::SIGABRT);
        assert_eq!(logged(), [libc::SIGABRT as usize; 2]);
    });
}

#[test]
fn an_adopted_handler_keeps_its_flags() {
    in_fresh_process(this_test!(), || {
        /// The kernel keeps the tag bits of a fault's address.
        const SA_EXPOSE_TAGBITS: i32 = 0x800;
        for flag in [
            libc::SA_ONSTACK,
            libc::SA_RESTART,
            libc::SA_NODEFER,
            SA_EXPOSE_TAGBITS,
        ] {
            install_plainly(libc::SIGSEGV, theirs, flag, &[]);
            // Old kernels and emulators support fewer flags.
            let before = installed(libc::SIGSEGV).sa_flags;
            install(ONE, note);
            let now = installed(libc::SIGSEGV);
            assert_ne!(now.sa_sigaction, theirs as *const () as usize);
            assert_eq!(now.sa_flags, before, "{flag:#x}");
            assert_eq!(findings(), []);
        }
    });
}

/// Its own mask is restored when atomseq's handler, which it calls, returns.
#[test]
fn a_handler_over_atomseq_s_keeps_its_mask() {
    in_fresh_process(this_test!(), || {
        static BELOW: AtomicUsize = AtomicUsize::new(0);
        fn note_mask() {
            for signal in [libc::SIGHUP, THEIRS, ONE, TWO] {
                log(usize::from(is_blocked(signal)));
            }
        }
        extern "C" fn over(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
            // SAFETY: what `sigaction` said was there before, a function of three arguments.
            let below: verify_support::signals::Three =
                unsafe { std::mem::transmute(BELOW.load(SeqCst)) };
            note_mask();
            below(signal, info, context);
            note_mask();
        }
        install(ONE, |_| note_mask());
        install(TWO, note);
        let below = install_plainly(ONE, over, 0, &[libc::SIGHUP]);
        BELOW.store(below.sa_sigaction, SeqCst);
        raise(ONE);
        let (of_over, of_note) = ([1, 0, 1, 0], [1, 0, 1, 1]);
        assert_eq!(logged(), [of_over, of_note, of_over].concat());
        assert!(![libc::SIGHUP, THEIRS, ONE, TWO].into_iter().any(is_blocked));
        // Repaired, it blocks the managed signals as well, and no others.
        signal::repair();
        clear_log();
        raise(ONE);
        assert_eq!(logged(), [[1, 0, 1, 1]; 3].concat());
    });
}

#[test]
fn default_and_ignored_are_left_alone() {
    in_fresh_process(this_test!(), || {
        // SAFETY: no function.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let before: Vec<usize> = (1..=31)
            .map(|signal| installed(signal).sa_sigaction)
            .collect();
        install(ONE, note);
        for signal in 1..=31 {
            let now = installed(signal).sa_sigaction;
            let was = before[signal as usize - 1];
            if was == libc::SIG_DFL || was == libc::SIG_IGN {
                assert_eq!(now == was, signal != ONE, "{signal}");
            }
        }
    });
}

/// `TWO` arrives in the middle of a sequence together with `ONE`. Returns the three words as its
/// handler finds them.
fn two_at_once() -> Vec<usize> {
    static WORDS: AtomicUsize = AtomicUsize::new(0);
    fn look(event: &mut Event<'_>) {
        log(event.signal() as usize);
        // SAFETY: the test's three words.
        unsafe { log_three(WORDS.load(SeqCst)) };
    }
    extern "C" fn unblock_both(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the context's set.
        unsafe {
            libc::sigdelset(mask(context), ONE);
            libc::sigdelset(mask(context), TWO);
        }
        PAGE.get().expect("made").release();
    }
    static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
    install_plainly(libc::SIGSEGV, unblock_both, 0, &[]);
    install(ONE, look);
    install(TWO, look);
    change_mask(libc::SIG_BLOCK, &[ONE, TWO]);
    raise(ONE);
    raise(TWO);
    let page = PAGE.get_or_init(Page::new);
    let words = page.words(1);
    WORDS.store(words as usize, SeqCst);
    page.interrupt(0);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
    assert!(!is_blocked(ONE) && !is_blocked(TWO));
    logged()
}

#[test]
fn two_signals_at_once_both_find_the_sequence_done() {
    in_fresh_process(this_test!(), || {
        let mut seen = two_at_once();
        assert_eq!(seen.split_off(4), [TWO as usize, 1, 1, 1]);
        assert_eq!(seen, [ONE as usize, 1, 1, 1]);
    });
}

#[test]
fn control_without_the_covering_mask_one_of_them_does_not() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::COVERING_MASK | signal_controls::NESTED) };
        let seen = two_at_once();
        assert!(
            seen.chunks(4).any(|seen| seen[1..] != [1, 1, 1]),
            "the kernel enters one handler on top of the other: {seen:?}"
        );
    });
}

/// A handler of others interrupts a sequence and lets a managed signal in.
fn nested_in_theirs() -> Vec<usize> {
    static WORDS: AtomicUsize = AtomicUsize::new(0);
    fn look(_: &mut Event<'_>) {
        // SAFETY: the test's three words.
        unsafe { log_three(WORDS.load(SeqCst)) };
    }
    extern "C" fn send(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        raise(ONE);
    }
    install_fault_handler();
    install_plainly(THEIRS, send, 0, &[]);
    install(ONE, look);
    let page = Page::new();
    let words = page.words(1);
    WORDS.store(words as usize, SeqCst);
    page.interrupt(THEIRS);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
    logged()
}

#[test]
fn a_signal_sent_in_their_handler_finds_the_sequence_done() {
    in_fresh_process(this_test!(), || assert_eq!(nested_in_theirs(), [1, 1, 1]));
}

#[test]
fn control_without_widening_it_finds_it_half_done() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::WIDENING) };
        assert_eq!(nested_in_theirs(), [1, 0, 0]);
    });
}

#[test]
fn illegal_instructions_of_others_go_on_to_their_handler() {
    in_fresh_process(this_test!(), || {
        extern "C" fn skip(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
            log(signal as usize);
            // SAFETY: the kernel's record and context; past the instruction.
            unsafe {
                log(usize::from((*info).si_code > 0));
                log(usize::from(is_blocked(libc::SIGHUP)));
                if (*info).si_code > 0 {
                    *program_counter(context) += if cfg!(target_arch = "x86_64") { 2 } else { 4 };
                }
            }
        }
        install_plainly(libc::SIGILL, skip, 0, &[libc::SIGHUP]);
        install(ONE, note);
        illegal_instruction();
        assert_eq!(logged(), [libc::SIGILL as usize, 1, 1]);
        raise(libc::SIGILL);
        assert_eq!(logged()[3..], [libc::SIGILL as usize, 0, 1]);
        assert!(!is_blocked(libc::SIGHUP) && !is_blocked(libc::SIGILL));
        assert_eq!(findings(), []);
    });
}

fn illegal_instruction() {
    // SAFETY: the handler skips it.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("ud2");
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("udf #0");
    }
}

#[test]
fn without_a_handler_an_illegal_instruction_kills() {
    killed_in_fresh_process(this_test!(), libc::SIGILL, || {
        install(ONE, note);
        illegal_instruction();
    });
}

#[test]
fn without_a_handler_a_fault_signal_from_a_kill_kills_too() {
    killed_in_fresh_process(this_test!(), libc::SIGILL, || {
        install(ONE, note);
        raise(libc::SIGILL);
    });
}

#[test]
fn a_handler_of_a_fault_can_be_installed_and_removed() {
    in_fresh_process(this_test!(), || {
        fn skip(event: &mut Event<'_>) {
            log(event.signal() as usize);
            // SAFETY: past the instruction.
            unsafe {
                *program_counter(event.context()) +=
                    if cfg!(target_arch = "x86_64") { 2 } else { 4 }
            };
        }
        extern "C" fn earlier(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            log(7);
            // SAFETY: past the instruction.
            unsafe {
                *program_counter(context) += if cfg!(target_arch = "x86_64") { 2 } else { 4 }
            };
        }
        install_plainly(libc::SIGILL, earlier, 0, &[]);
        install(libc::SIGILL, skip);
        illegal_instruction();
        assert_eq!(rolled_forward(), [1, 1, 1]);
        signal::uninstall(libc::SIGILL).expect("uninstalled");
        illegal_instruction();
        assert_eq!(logged(), [libc::SIGILL as usize, 7]);
        assert_eq!(rolled_forward(), [1, 1, 1]);
    });
}

/// Rolls a sequence forward for `TWO`; returns the words that its handler finds.
fn rolled_forward() -> [usize; 3] {
    static WORDS: AtomicUsize = AtomicUsize::new(0);
    static SEEN: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
    fn look(_: &mut Event<'_>) {
        for (index, seen) in SEEN.iter().enumerate() {
            // SAFETY: the test's three words.
            seen.store(
                unsafe {
                    (WORDS.load(SeqCst) as *const usize)
                        .add(index)
                        .read_volatile()
                },
                SeqCst,
            );
        }
    }
    install_fault_handler();
    install(TWO, look);
    let page = Page::new();
    let words = page.words(1);
    WORDS.store(words as usize, SeqCst);
    page.interrupt(TWO);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
    SEEN.each_ref().map(|seen| seen.load(SeqCst))
}

/// The handler that the one installed over atomseq's has displaced.
static DISPLACED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    log(1000 + signal as usize);
    // SAFETY: a handler of three arguments, called as the kernel would.
    unsafe {
        let earlier: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
            std::mem::transmute(DISPLACED.load(SeqCst));
        earlier(signal, info, context);
    }
}

#[test]
fn a_managed_signal_that_was_displaced_is_reported() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        install(TWO, note);
        let old = install_plainly(ONE, pass_on, 0, &[]);
        DISPLACED.store(old.sa_sigaction, SeqCst);
        let displaced = Finding {
            signal: ONE,
            fault: Fault::Displaced,
        };
        assert_eq!(findings(), [displaced]);
        assert_eq!(
            signal::repair().findings().collect::<Vec<_>>(),
            [displaced],
            "whose it is, is not ours to say"
        );
        assert!(
            holds(&installed(ONE).sa_mask, TWO),
            "but it lets nothing in"
        );
        raise(ONE);
        assert_eq!(logged(), [1000 + ONE as usize, ONE as usize]);
        // A mask defers through a handler that passes signals on, too.
        let guard = signal::mask();
        raise(ONE);
        assert_eq!(logged().len(), 3);
        drop(guard);
        assert_eq!(logged()[3..], [1000 + ONE as usize, ONE as usize]);
    });
}

#[test]
fn a_handler_put_back_with_another_mask_is_reported_and_repaired() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        install(TWO, note);
        let mut ours = installed(ONE);
        ours.sa_mask = verify_support::signals::set(&[]);
        ours.sa_flags |= libc::SA_NODEFER;
        // SAFETY: what was installed, but for the mask and a flag.
        unsafe { libc::sigaction(ONE, &ours, std::ptr::null_mut()) };
        assert_eq!(
            findings(),
            [Finding {
                signal: ONE,
                fault: Fault::Altered
            }]
        );
        assert!(signal::repair().is_clean());
        assert_eq!(installed(ONE).sa_flags & libc::SA_NODEFER, 0);
    });
}

#[test]
fn a_fault_s_handler_installed_later_is_adopted_by_repair() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let all: Vec<i32> = (1..=64)
            .filter(|signal| ![32, 33].contains(signal))
            .collect();
        install_plainly(libc::SIGFPE, theirs, 0, &all);
        assert_eq!(
            findings(),
            [Finding {
                signal: libc::SIGFPE,
                fault: Fault::Unadopted
            }]
        );
        assert!(signal::repair().is_clean());
        raise(libc::SIGFPE);
        assert_eq!(logged(), [1, 2, ONE as usize]);
    });
}

#[test]
fn a_handler_of_one_argument_is_called_with_one() {
    in_fresh_process(this_test!(), || {
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::signal(libc::SIGBUS, of_one_argument as *const () as usize) };
        fn chain(event: &mut Event<'_>) {
            event.chain();
        }
        // SAFETY: the handler is async-signal-safe.
        unsafe { libc::signal(ONE, of_one_argument as *const () as usize) };
        install(ONE, chain);
        raise(ONE);
        raise(libc::SIGBUS);
        assert_eq!(
            logged(),
            [3000 + ONE as usize, 3000 + libc::SIGBUS as usize]
        );
    });
}

#[test]
fn signal_hook_works_before_and_after() {
    in_fresh_process(this_test!(), || {
        let before = std::sync::Arc::new(AtomicBool::new(false));
        let after = std::sync::Arc::new(AtomicBool::new(false));
        let shared = std::sync::Arc::new(AtomicUsize::new(0));
        signal_hook::flag::register(THEIRS, before.clone()).expect("registered");
        install(ONE, note);
        install(TWO, |event| {
            log(event.signal() as usize);
            event.chain();
        });
        signal_hook::flag::register(libc::SIGHUP, after.clone()).expect("registered");
        assert_eq!(
            findings(),
            [Finding {
                signal: libc::SIGHUP,
                fault: Fault::Uncovered
            }]
        );
        assert!(signal::repair().is_clean());
        raise(THEIRS);
        raise(libc::SIGHUP);
        assert!(before.load(SeqCst) && after.load(SeqCst));
        // Its registry installs a handler over a managed signal and passes on to the displaced one.
        let counted = shared.clone();
        // SAFETY: adds to a number.
        unsafe { signal_hook_registry::register(ONE, move || _ = counted.fetch_add(1, SeqCst)) }
            .expect("registered");
        raise(ONE);
        assert_eq!((shared.load(SeqCst), logged()), (1, vec![ONE as usize]));
        let guard = signal::mask();
        raise(ONE);
        drop(guard);
        assert_eq!(logged(), [ONE as usize; 2]);
        assert_eq!(
            findings(),
            [Finding {
                signal: ONE,
                fault: Fault::Displaced
            }]
        );
    });
}

#[test]
fn the_runtime_s_own_fault_handler_still_reports_stack_overflows() {
    let killed = killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        #[allow(unconditional_recursion)]
        fn deeper(depth: usize) -> usize {
            let array = std::hint::black_box([depth; 64]);
            deeper(depth + 1) + array[3]
        }
        install(ONE, note);
        std::hint::black_box(deeper(0));
    });
    if let Some(errors) = killed {
        assert!(errors.contains("has overflowed its stack"), "{errors}");
    }
}
