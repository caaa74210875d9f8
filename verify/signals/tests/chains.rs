//! Handlers of several libraries and of atomseq in one chain: which are called, and what each
//! observes.
#![cfg(atomseq_sections)]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Fault, Finding};
use verify_signals::{
    FOUND, add_to_three, clear_log, install_over, logged, lowest, note, note_and_chain, pass_on,
};
use verify_support::pages::{Page, program_counter};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::put_back;
use verify_support::signals::{change_mask, findings, install, install_plainly, installed, raise};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;

#[test]
fn a_handler_that_was_below_a_removed_one_may_pass_on_to_it() {
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, pass_on::<0>, 0, &[]);
        install(ONE, note);
        FOUND[0].store(installed(ONE).sa_sigaction, SeqCst);
        signal::uninstall(ONE).expect("uninstalled");
        raise(ONE);
        assert_eq!(logged(), [1000, 1000]);
    });
}

/// DOS emulators change the flags register in a signal's context.
#[test]
fn what_a_chained_handler_does_to_the_kernel_s_flags_stays() {
    static SET: AtomicUsize = AtomicUsize::new(0);
    fn flags(context: *mut libc::c_void) -> *mut usize {
        context.cast()
    }
    extern "C" fn change(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the first word of a context.
        unsafe { *flags(context) ^= 4 };
        // SAFETY: the first word of a context.
        SET.store(unsafe { *flags(context) } & 255, SeqCst);
    }
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, change, 0, &[]);
        install(ONE, |event| {
            let flags = flags(event.context());
            // SAFETY: the first word of a context.
            let before = unsafe { *flags };
            event.chain();
            // SAFETY: the first word of a context.
            let after = unsafe { *flags };
            assert_eq!((after, after), (before ^ 4, SET.load(SeqCst)));
            note(event);
        });
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
    });
}

/// Chains to a handler that passes on to one that was removed. Returns the log.
fn chained_to_what_passes_on() -> Vec<usize> {
    install_plainly(ONE, lowest, 0, &[]);
    install(ONE, note);
    let ours = installed(ONE);
    signal::uninstall(ONE).expect("uninstalled");
    install_over::<0>(ONE);
    FOUND[0].store(ours.sa_sigaction, SeqCst);
    install(ONE, note_and_chain);
    raise(ONE);
    logged()
}

#[test]
fn what_passes_on_to_a_removed_handler_can_be_chained_to() {
    in_fresh_process(this_test!(), || {
        assert_eq!(chained_to_what_passes_on(), [ONE as usize, 1000, 2000]);
    });
}

#[test]
fn control_with_one_entry_for_both_the_signal_goes_round() {
    let killed = killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        // SAFETY: this test expects what follows.
        unsafe {
            atomseq::internals::signal_controls::set(atomseq::internals::signal_controls::ENTRIES)
        };
        chained_to_what_passes_on();
        eprintln!("the process survived");
    });
    if let Some(errors) = killed {
        assert!(errors.contains("index out of bounds"), "the log: {errors}");
        assert!(!errors.contains("the process survived"));
    }
}

/// The faulting page, and the number of calls of the fault's handler.
static PAGE: std::sync::OnceLock<Page> = std::sync::OnceLock::new();
static CALLS: AtomicUsize = AtomicUsize::new(0);
static PCS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Unblocks the managed signal on the first fault, so that the second fault is in the clone.
extern "C" fn on_fault(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let call = CALLS.fetch_add(1, SeqCst);
    // SAFETY: the kernel's context.
    PCS[call].store(unsafe { *program_counter(context) }, SeqCst);
    match call {
        // SAFETY: the context's set.
        0 => unsafe {
            libc::sigdelset(verify_support::pages::mask(context), ONE);
        },
        _ => PAGE.get().expect("made").release(),
    }
}

fn all_signals() -> Vec<i32> {
    (1..=64)
        .filter(|signal| ![32, 33, 34].contains(signal))
        .collect()
}

/// Installs a fault's handler over an adopted one. Returns the program counters that it observes
/// for two faults, the second of which is in a clone.
fn seen_by_a_second_fault_handler(repair: bool) -> [usize; 2] {
    install_plainly(libc::SIGSEGV, lowest, 0, &[]);
    install(ONE, note);
    install_plainly(libc::SIGSEGV, on_fault, 0, &all_signals());
    let unadopted = Finding {
        signal: libc::SIGSEGV,
        fault: Fault::Unadopted,
    };
    assert_eq!(findings(), [unadopted]);
    if repair {
        assert!(signal::repair().is_clean());
    }
    change_mask(libc::SIG_BLOCK, &[ONE]);
    raise(ONE);
    let page = PAGE.get_or_init(Page::new);
    let words = page.words(1);
    page.interrupt_again(0, 2);
    // SAFETY: three words of the test's.
    unsafe { add_to_three::rolling(words as usize, 99) };
    assert_eq!((CALLS.load(SeqCst), logged()), (2, vec![ONE as usize]));
    PCS.each_ref().map(|pc| pc.load(SeqCst))
}

#[test]
fn a_fault_s_handler_over_an_adopted_one_is_reported_and_repaired() {
    in_fresh_process(this_test!(), || {
        let [first, second] = seen_by_a_second_fault_handler(true);
        assert_eq!(second, first);
    });
}

#[test]
fn control_without_the_repair_it_sees_the_clone() {
    in_fresh_process(this_test!(), || {
        let [first, second] = seen_by_a_second_fault_handler(false);
        assert_ne!(second, first);
        assert_eq!(signal::original_pc(second), first);
    });
}

#[test]
fn adopted_handlers_pass_on_to_each_other_and_put_back_what_they_found() {
    in_fresh_process(this_test!(), || {
        let fault = libc::SIGFPE;
        install_plainly(fault, lowest, 0, &[]);
        install(ONE, note);
        let mut found = Vec::new();
        found.push(install_over::<0>(fault));
        assert!(signal::repair().is_clean());
        found.push(install_over::<1>(fault));
        assert!(signal::repair().is_clean());
        found.push(install_over::<2>(fault));
        assert!(signal::repair().is_clean());
        let expected = [1002, 1001, 1000, 2000];
        for (removed, old) in [None]
            .into_iter()
            .chain(found.iter().rev().map(Some))
            .enumerate()
        {
            if let Some(old) = old {
                put_back(fault, old);
            }
            for repaired in [false, true] {
                clear_log();
                raise(fault);
                assert_eq!(logged(), expected[removed..], "{removed}, {repaired}");
                assert!(signal::repair().is_clean());
            }
        }
    });
}

/// A crash reporter that is armed twice stores the handler that it finds, which is now an entry
/// that leads back to the reporter itself.
#[test]
fn an_adopted_handler_that_finds_itself_ends_in_the_default_action() {
    let killed = killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        install_plainly(libc::SIGSEGV, pass_on::<0>, 0, &[]);
        install(ONE, note);
        install_over::<0>(libc::SIGSEGV);
        assert!(signal::repair().is_clean());
        // SAFETY: this test expects the fault.
        unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
    });
    if let Some(errors) = killed {
        assert!(!errors.contains("index out of bounds"), "the log: {errors}");
    }
}

#[test]
fn the_c_library_s_own_signals_are_covered_and_no_finding() {
    in_fresh_process(this_test!(), || {
        unsafe extern "C" {
            fn pthread_cancel(thread: libc::pthread_t) -> i32;
        }
        extern "C" fn wait(_: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: waits for the cancellation.
            unsafe { libc::pause() };
            std::ptr::null_mut()
        }
        // The test's own thread was the first, so the C library's handlers are those of
        // `pthread_cancel`.
        install(ONE, note);
        // SAFETY: a thread of this test's, which is joined.
        unsafe {
            let mut thread = 0;
            let result =
                libc::pthread_create(&mut thread, std::ptr::null(), wait, std::ptr::null_mut());
            assert_eq!(result, 0);
            assert_eq!(pthread_cancel(thread), 0);
            assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        }
        assert_eq!(findings(), []);
        for reserved in [32, 33] {
            let (handler, mask) = kernel_disposition(reserved);
            assert!(handler <= 1 || mask & (1 << (ONE - 1)) != 0, "{reserved}");
        }
    });
}

/// Returns the kernel's disposition of a signal that the C library hides: the handler and its mask.
fn kernel_disposition(signal: i32) -> (usize, u64) {
    let mut words = [0usize; 4];
    // SAFETY: asks only; four words are the kernel's disposition.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            std::ptr::null::<usize>(),
            words.as_mut_ptr(),
            8,
        )
    };
    assert_eq!(result, 0);
    (words[0], words[3] as u64)
}
