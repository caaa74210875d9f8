//! `Event::default_action`: the process ends, stops or goes on as if the signal had no handler.

use std::io::Read;
use std::os::fd::AsRawFd;
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

/// Returns how a child ended that has run `check`, and what it wrote to standard error.
fn ended(check: impl FnOnce()) -> (i32, String) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let child = start_child(fork, || {
        // SAFETY: two open descriptors.
        assert_eq!(unsafe { libc::dup2(writer.as_raw_fd(), 2) }, 2);
        check();
        0
    });
    drop(writer);
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    let mut status = 0;
    // SAFETY: a child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    (status, text)
}

/// A signal for one delivery only, and one that interrupts its own handler: the handler ends first.
#[test]
fn options_do_not_matter() {
    for options in [
        Options::new().once(),
        Options::new().no_defer(),
        Options::new().nesting(),
        Options::new().nesting().no_defer(),
    ] {
        for signal in [libc::SIGUSR2, libc::SIGABRT, libc::SIGRTMIN() + 3] {
            for is_masked in [false, true] {
                let (status, text) = ended(|| {
                    install_with(signal, report, options);
                    let masked = is_masked.then(signal::mask);
                    raise(signal);
                    drop(masked);
                });
                assert!(libc::WIFSIGNALED(status), "{options:?}: {status:#x}");
                assert_eq!(libc::WTERMSIG(status), signal, "{options:?}");
                assert_eq!(text, "handled\n", "{options:?}, {signal}, {is_masked}");
            }
        }
    }
}

/// A page that a handler of SIGSEGV makes writable.
static CLOSED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_fault_whose_cause_the_handler_removes_does_not_end_the_process() {
    fn open(event: &mut Event<'_>) {
        report(event);
        let page = CLOSED.load(SeqCst) as *mut libc::c_void;
        // SAFETY: a page of this test.
        unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) };
    }
    in_fresh_process(this_test!(), || {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new page.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(page, libc::MAP_FAILED);
        CLOSED.store(page as usize, SeqCst);
        install(libc::SIGSEGV, open);
        // SAFETY: the handler makes the page writable.
        unsafe { page.cast::<u8>().write_volatile(1) };
        assert_eq!(HANDLED.load(SeqCst), 1);
        assert!(!verify_support::signals::is_blocked(libc::SIGSEGV));
    });
}

/// Runs `check` in the first process of a new PID namespace, if this process may make one. Returns
/// how that process ended.
#[cfg(target_os = "linux")]
fn in_first_process(check: impl Fn()) -> Option<i32> {
    let code = verify_support::processes::code_of_child(|| {
        let new = libc::CLONE_NEWUSER | libc::CLONE_NEWPID;
        // SAFETY: a child with one thread.
        let is_made = unsafe { libc::unshare(libc::CLONE_NEWPID) == 0 || libc::unshare(new) == 0 };
        if !is_made {
            return 255;
        }
        let child = start_child(fork, || {
            check();
            7
        });
        let mut status = 0;
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(child, &mut status, 0) };
        match libc::WIFSIGNALED(status) {
            true => 128 + libc::WTERMSIG(status),
            false => libc::WEXITSTATUS(status),
        }
    });
    if code == 255 {
        eprintln!("skipped: no PID namespace may be made here");
    }
    (code != 255).then_some(code)
}

/// The kernel discards what has no handler there. So the handler stays.
#[cfg(target_os = "linux")]
#[test]
fn nothing_happens_in_the_first_process_of_a_namespace() {
    let ended = in_first_process(|| {
        // SAFETY: takes no arguments.
        assert_eq!(unsafe { libc::getpid() }, 1);
        for (times, signal) in [libc::SIGTERM, libc::SIGABRT, libc::SIGTSTP]
            .into_iter()
            .enumerate()
        {
            install(signal, report);
            raise(signal);
            raise(signal);
            assert_eq!(HANDLED.load(SeqCst), 2 * times + 2);
            assert!(signal::is_managed(signal) && signal::audit().is_clean());
        }
    });
    assert!(ended.is_none_or(|code| code == 7), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_fault_ends_the_first_process_of_a_namespace() {
    let ended = in_first_process(|| {
        install(libc::SIGSEGV, report);
        // SAFETY: a fault, which is what this is about.
        unsafe {
            std::hint::black_box(std::ptr::without_provenance_mut::<u64>(8)).write_volatile(1)
        };
    });
    assert!(
        ended.is_none_or(|code| code == 128 + libc::SIGSEGV),
        "{ended:?}"
    );
}

/// Without a handler the kernel stops no process of an orphaned group; `default_action` stops it.
#[test]
fn a_stop_signal_stops_the_process_in_an_orphaned_group() {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        for is_handled in [false, true] {
            let child = start_child(fork, || {
                // SAFETY: the leader of a new session, whose group is orphaned.
                assert!(unsafe { libc::setsid() } > 0);
                if is_handled {
                    install(signal, report);
                }
                raise(signal);
                7
            });
            let mut status = 0;
            // SAFETY: a child of this process.
            unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) };
            assert_eq!(
                libc::WIFSTOPPED(status),
                is_handled,
                "{signal}: {status:#x}"
            );
            if is_handled {
                // SAFETY: a child that has stopped.
                unsafe { libc::kill(child, libc::SIGCONT) };
                assert_eq!(verify_support::processes::code_of(child), 7);
            }
        }
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
