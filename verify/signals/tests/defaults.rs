//! `Event::default_action`: the process ends, stops or goes on as if the signal had no handler.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, Event, Options};
use verify_support::processes::{fork, in_fresh_process, killed_in_fresh_process, start_child};
use verify_support::signals::{install, install_with, raise};
use verify_support::this_test;

static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// Writes past what the test harness captures.
fn write(text: &str) {
    // SAFETY: a text and its length.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}

fn report(event: &mut Event<'_>) {
    HANDLED.fetch_add(1, SeqCst);
    event.default_action();
    write("handled\n");
}

fn only_report(_: &mut Event<'_>) {
    HANDLED.fetch_add(1, SeqCst);
}

/// The handler ends first: the signal is blocked while it runs.
#[test]
fn a_signal_that_ends_the_process_does_so_after_the_handler() {
    let errors = killed_in_fresh_process(this_test!(), libc::SIGTERM, || {
        install(libc::SIGTERM, report);
        raise(libc::SIGTERM);
        write("went on\n");
    });
    if let Some(errors) = errors {
        assert!(
            errors.contains("handled") && !errors.contains("went on"),
            "{errors}"
        );
    }
}

#[test]
fn control_without_it_the_process_goes_on() {
    in_fresh_process(this_test!(), || {
        install(libc::SIGTERM, only_report);
        raise(libc::SIGTERM);
        assert_eq!(HANDLED.load(SeqCst), 1);
    });
}

/// Also inside a mask, where the signal is deferred first, and by another thread.
#[test]
fn a_deferred_signal_ends_the_process_at_the_end_of_the_mask() {
    let errors = killed_in_fresh_process(this_test!(), libc::SIGUSR1, || {
        install(libc::SIGUSR1, report);
        std::thread::spawn(|| {
            let masked = signal::mask();
            raise(libc::SIGUSR1);
            write("deferred\n");
            drop(masked);
            write("went on\n");
        })
        .join()
        .expect("killed before");
    });
    if let Some(errors) = errors {
        let order = ["deferred", "handled"].map(|word| errors.find(word));
        assert!(order[0].is_some() && order[0] < order[1], "{errors}");
        assert!(!errors.contains("went on"), "{errors}");
    }
}

#[test]
fn a_real_time_signal_ends_the_process() {
    killed_in_fresh_process(this_test!(), libc::SIGRTMIN() + 3, || {
        install(libc::SIGRTMIN() + 3, report);
        raise(libc::SIGRTMIN() + 3);
    });
}

#[test]
fn a_fault_ends_the_process_by_its_signal() {
    let errors = killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        install(libc::SIGSEGV, report);
        // SAFETY: a fault, which is what this is about.
        unsafe {
            std::hint::black_box(std::ptr::without_provenance_mut::<u64>(8)).write_volatile(1)
        };
        write("went on\n");
    });
    if let Some(errors) = errors {
        assert!(
            errors.contains("handled") && !errors.contains("went on"),
            "{errors}"
        );
    }
}

#[test]
fn an_abort_ends_the_process_by_its_signal() {
    killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        install(libc::SIGABRT, report);
        raise(libc::SIGABRT);
    });
}

#[test]
fn a_trap_that_an_instruction_raises_ends_the_process() {
    killed_in_fresh_process(this_test!(), libc::SIGTRAP, || {
        install(libc::SIGTRAP, report);
        raise(libc::SIGTRAP);
    });
}

/// A signal for one delivery only, and one that interrupts its own handler.
#[test]
fn options_do_not_matter() {
    for options in [
        Options::new().once(),
        Options::new().no_defer(),
        Options::new().nesting(),
    ] {
        let child = start_child(fork, || {
            install_with(libc::SIGUSR2, report, options);
            raise(libc::SIGUSR2);
            0
        });
        let mut status = 0;
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status), "{options:?}: {status:#x}");
        assert_eq!(libc::WTERMSIG(status), libc::SIGUSR2, "{options:?}");
    }
}

/// The process stops each time, and goes on with its handler.
#[test]
fn a_stop_signal_stops_the_process_and_keeps_its_handler() {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        let child = start_child(fork, || {
            install(signal, report);
            raise(signal);
            raise(signal);
            HANDLED.load(SeqCst) as i32
        });
        for _ in 0..2 {
            let mut status = 0;
            // SAFETY: a child of this process.
            let stopped = unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
            assert_eq!(stopped, child);
            assert!(libc::WIFSTOPPED(status), "{signal}: {status:#x}");
            // SAFETY: a child that has stopped.
            unsafe { libc::kill(child, libc::SIGCONT) };
        }
        assert_eq!(verify_support::processes::code_of(child), 2);
    }
}

#[test]
fn a_signal_whose_default_does_nothing_keeps_its_handler() {
    in_fresh_process(this_test!(), || {
        for signal in [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH] {
            let before = HANDLED.load(SeqCst);
            install(signal, report);
            raise(signal);
            raise(signal);
            assert_eq!(HANDLED.load(SeqCst), before + 2, "{signal}");
        }
    });
}
