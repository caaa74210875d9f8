//! Dispositions that other code reads and restores, over and after atomseq's handlers.
#![cfg(target_os = "linux")]

use atomseq::signal::{self, Fault, Finding, Options};
use std::sync::atomic::Ordering::SeqCst;
use verify_signals::{
    FOUND, clear_log, ignore, install_over, logged, lowest, note, note_and_chain, pass_on,
};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::put_back;
use verify_support::signals::{
    findings, holds, install, install_plainly, install_with, installed, raise,
};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const TWO: i32 = libc::SIGUSR2;

#[test]
fn a_handler_for_one_signal_resets_only_what_is_its_own() {
    in_fresh_process(this_test!(), || {
        install_with(ONE, note, Options::new().once());
        install_over::<0>(ONE);
        raise(ONE);
        assert_eq!(logged(), [1000, ONE as usize]);
        let now = installed(ONE).sa_sigaction;
        assert_eq!(
            now, pass_on::<0> as *const () as usize,
            "theirs is installed"
        );
        assert!(!signal::is_managed(ONE));
        raise(ONE);
        assert_eq!(logged(), [1000, ONE as usize, 1000], "the handler ran once");
    });
}

/// Another thread receives the signal that resets a one-shot handler while this thread installs
/// over it: the new handler stays and is covered.
#[cfg(atomseq_sections)]
#[test]
fn a_handler_that_is_installed_over_one_that_is_used_up_stays() {
    in_fresh_process(this_test!(), || {
        use std::sync::atomic::AtomicUsize;
        const ROUNDS: usize = 3000;
        static ROUND: AtomicUsize = AtomicUsize::new(0);
        static DONE: AtomicUsize = AtomicUsize::new(0);
        fn nothing(_: &mut signal::Event<'_>) {}
        extern "C" fn theirs(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}
        let other = std::thread::spawn(|| {
            for round in 1..=ROUNDS {
                while ROUND.load(SeqCst) != round {
                    std::thread::yield_now();
                }
                for _ in 0..round * 37 % 2000 {
                    std::hint::spin_loop();
                }
                raise(ONE);
                DONE.store(round, SeqCst);
            }
        });
        for round in 1..=ROUNDS {
            install_with(ONE, nothing, Options::new().once());
            ROUND.store(round, SeqCst);
            install(ONE, nothing);
            while DONE.load(SeqCst) != round {
                std::thread::yield_now();
            }
            assert!(signal::is_managed(ONE), "{round}");
            assert_ne!(installed(ONE).sa_sigaction, libc::SIG_DFL, "{round}");
            install_plainly(libc::SIGWINCH, theirs, 0, &[]);
            assert!(signal::repair().is_clean());
            assert!(holds(&installed(libc::SIGWINCH).sa_mask, ONE), "{round}");
        }
        other.join().expect("the thread returns");
    });
}

#[test]
fn a_used_up_handler_that_is_put_back_is_the_default_action() {
    killed_in_fresh_process(this_test!(), ONE, || {
        install_with(ONE, note, Options::new().once());
        let ours = installed(ONE);
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
        put_back(ONE, &ours);
        raise(ONE);
    });
}

#[test]
fn a_removed_handler_that_is_put_back_is_what_was_there_before() {
    in_fresh_process(this_test!(), || {
        install(TWO, note);
        for with in ["nothing", "a handler"] {
            clear_log();
            match with {
                "nothing" => ignore(ONE),
                _ => _ = install_plainly(ONE, lowest, 0, &[]),
            }
            install(ONE, note);
            let ours = installed(ONE);
            signal::uninstall(ONE).expect("uninstalled");
            put_back(ONE, &ours);
            raise(ONE);
            let expected: &[usize] = if with == "nothing" { &[] } else { &[2000] };
            assert_eq!(logged(), expected, "{with}");
            let finding = Finding {
                signal: ONE,
                fault: Fault::PutBack,
            };
            assert_eq!(findings(), [finding]);
            assert!(signal::audit().to_string().contains("call repair()"));
            assert!(signal::repair().is_clean());
            assert_ne!(installed(ONE).sa_sigaction, ours.sa_sigaction);
            raise(ONE);
            assert_eq!(logged(), [expected, expected].concat(), "{with}");
        }
    });
}

#[test]
fn a_removed_handler_that_is_put_back_over_the_default_action_kills() {
    killed_in_fresh_process(this_test!(), ONE, || {
        install(ONE, note);
        let ours = installed(ONE);
        signal::uninstall(ONE).expect("uninstalled");
        put_back(ONE, &ours);
        raise(ONE);
    });
}

#[test]
fn a_removed_handler_that_others_pass_on_to_does_nothing() {
    in_fresh_process(this_test!(), || {
        install(ONE, note);
        let ours = installed(ONE);
        signal::uninstall(ONE).expect("uninstalled");
        install_over::<0>(ONE);
        FOUND[0].store(ours.sa_sigaction, SeqCst);
        raise(ONE);
        assert_eq!(logged(), [1000]);
        assert_eq!(
            installed(ONE).sa_sigaction,
            pass_on::<0> as *const () as usize
        );
    });
}

#[test]
fn a_handler_that_has_displaced_ours_is_chained_to_and_restored() {
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, lowest, 0, &[]);
        install(ONE, note);
        install_over::<0>(ONE);
        install(ONE, note_and_chain);
        assert_eq!(findings(), []);
        raise(ONE);
        // The replaced one stands for what was below it.
        let theirs: &[usize] = &[1000, 2000];
        assert_eq!(logged(), [&[ONE as usize], theirs].concat());
        // Another one takes its place.
        install(ONE, note);
        signal::uninstall(ONE).expect("it is installed");
        let now = installed(ONE).sa_sigaction;
        assert_eq!(now, pass_on::<0> as *const () as usize);
        clear_log();
        raise(ONE);
        assert_eq!(logged(), theirs);
    });
}

#[test]
fn handlers_over_each_other_are_all_chained_to() {
    in_fresh_process(this_test!(), || {
        install(ONE, note_and_chain);
        install_over::<0>(ONE);
        install(ONE, note_and_chain);
        install_over::<1>(ONE);
        install(ONE, note_and_chain);
        install_over::<2>(ONE);
        raise(ONE);
        let one = ONE as usize;
        assert_eq!(logged(), [1002, one, 1001, 1000]);
    });
}

/// A library installs its handler a second time, over the entry that stands for it.
#[test]
fn a_circle_of_handlers_ends() {
    in_fresh_process(this_test!(), || {
        install_over::<0>(ONE);
        install(ONE, note);
        install_over::<0>(ONE);
        install(ONE, note_and_chain);
        for _ in 0..3 {
            clear_log();
            raise(ONE);
            assert_eq!(logged(), [ONE as usize, 1000, 1000]);
        }
    });
}

/// A handler that was uninstalled stands for the handler below it, also where another handler calls
/// its entry.
#[test]
fn a_removed_handler_that_others_pass_on_to_is_what_was_there_before() {
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, lowest, 0, &[]);
        install(ONE, note);
        let ours = installed(ONE);
        signal::uninstall(ONE).expect("uninstalled");
        install_over::<0>(ONE);
        FOUND[0].store(ours.sa_sigaction, SeqCst);
        raise(ONE);
        assert_eq!(logged(), [1000, 2000]);
    });
}

/// As the kernel would have called it.
#[test]
fn a_handler_for_one_signal_is_chained_to_once() {
    in_fresh_process(this_test!(), || {
        install_plainly(ONE, lowest, libc::SA_RESETHAND, &[]);
        install(ONE, note_and_chain);
        raise(ONE);
        raise(ONE);
        // Another one in its place.
        install(ONE, note_and_chain);
        raise(ONE);
        let one = ONE as usize;
        assert_eq!(logged(), [one, 2000, one, one]);
        signal::uninstall(ONE).expect("it is installed");
        assert_eq!(installed(ONE).sa_sigaction, libc::SIG_DFL);
    });
}

/// The same through an entry without a handler.
#[test]
fn a_handler_for_one_signal_is_passed_on_to_once() {
    killed_in_fresh_process(this_test!(), ONE, || {
        install_plainly(ONE, lowest, libc::SA_RESETHAND, &[]);
        install(ONE, note);
        let ours = installed(ONE);
        signal::uninstall(ONE).expect("it is installed");
        put_back(ONE, &ours);
        raise(ONE);
        assert_eq!(logged(), [2000]);
        raise(ONE);
    });
}

#[test]
fn an_earlier_entry_that_is_put_back_is_what_was_there_before() {
    in_fresh_process(this_test!(), || {
        ignore(ONE);
        install(ONE, note);
        let found = install_over::<0>(ONE);
        install(ONE, note_and_chain);
        raise(ONE);
        assert_eq!(logged(), [ONE as usize, 1000]);
        put_back(ONE, &found);
        clear_log();
        raise(ONE);
        assert_eq!(logged(), []);
        let displaced = Finding {
            signal: ONE,
            fault: Fault::Displaced,
        };
        assert_eq!(findings(), [displaced]);
        // The library has removed its handler, so nothing calls it any more.
        install(ONE, note_and_chain);
        raise(ONE);
        assert_eq!(logged(), [ONE as usize]);
        assert_eq!(findings(), []);
        assert!(!holds(&installed(ONE).sa_mask, libc::SIGSEGV));
        signal::uninstall(ONE).expect("it is installed");
        assert_eq!(installed(ONE).sa_sigaction, libc::SIG_IGN);
    });
}
