//! The kernel's disposition of a signal while atomseq restores a handler of others, system call by
//! system call: a tracer stops the process at each. From the first call on, a signal may arrive in
//! the middle of a sequence.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event, Options};
use verify_support::processes::{in_child, in_fresh_process};
use verify_support::signals::{install, install_plainly, install_with, installed, raise};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const MASKABLE: i32 = 64;

static RUNS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn theirs(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    RUNS.fetch_add(1, SeqCst);
}

fn nothing(_: &mut Event<'_>) {}

fn count(_: &mut Event<'_>) {
    RUNS.fetch_add(1, SeqCst);
}

/// A handler and a mask, in the kernel's layout.
#[derive(Clone, Copy, Debug)]
struct Placed {
    handler: usize,
    mask: u64,
}

fn ptrace(request: u32, child: i32, data: usize) -> i64 {
    // SAFETY: requests that write no memory of this process's.
    unsafe { libc::ptrace(request, child, 0, data) }
}

/// A word of the child's memory.
fn peek(child: i32, address: u64) -> u64 {
    // SAFETY: reads a word of the child's, which has stopped.
    unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, child, address, 0) as u64 }
}

fn registers(child: i32) -> libc::user_regs_struct {
    // SAFETY: plain old data, which the kernel fills in.
    unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        let result = libc::ptrace(libc::PTRACE_GETREGS, child, 0, &raw mut registers);
        assert_eq!(result, 0);
        registers
    }
}

/// Runs `body` in a child; returns the dispositions of `signal` that it installs, in order.
fn placed_by(signal: i32, body: impl FnOnce()) -> Vec<Placed> {
    let (placed, status) = placed_and_status(signal, body);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0);
    placed
}

/// The same for a `body` in which `signal` kills the child.
fn placed_until_killed(signal: i32, body: impl FnOnce()) -> Vec<Placed> {
    let (placed, status) = placed_and_status(signal, body);
    assert!(libc::WIFSIGNALED(status), "{status:#x}");
    assert_eq!(libc::WTERMSIG(status), signal);
    placed
}

/// The same; also returns the child's status.
fn placed_and_status(signal: i32, body: impl FnOnce()) -> (Vec<Placed>, i32) {
    // SAFETY: the child runs on as this process would, which has no other thread that does
    // anything.
    let child = unsafe { libc::fork() };
    if child == 0 {
        ptrace(libc::PTRACE_TRACEME, 0, 0);
        raise(libc::SIGSTOP);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut placed = Vec::new();
    let mut passed_on = 0;
    let mut is_entry = false;
    loop {
        let mut status = 0;
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        if !libc::WIFSTOPPED(status) {
            return (placed, status);
        }
        const CALL: i32 = libc::SIGTRAP | 0x80;
        match libc::WSTOPSIG(status) {
            CALL => {
                is_entry = !is_entry;
                let call = registers(child);
                let is_new = call.orig_rax == libc::SYS_rt_sigaction as u64 && call.rsi != 0;
                if is_entry && is_new && call.rdi == signal as u64 {
                    // The fields of the kernel's structure: handler, flags, restorer, mask.
                    placed.push(Placed {
                        handler: peek(child, call.rsi) as usize,
                        mask: peek(child, call.rsi + 24),
                    });
                }
            }
            libc::SIGSTOP => {
                ptrace(
                    libc::PTRACE_SETOPTIONS,
                    child,
                    libc::PTRACE_O_TRACESYSGOOD as usize,
                );
            }
            other => passed_on = other,
        }
        ptrace(libc::PTRACE_SYSCALL, child, passed_on as usize);
        passed_on = 0;
    }
}

/// How a handler of others is restored.
#[derive(Clone, Copy, Debug)]
enum Way {
    Uninstall,
    /// By a repair, after other code has restored the entry.
    Repair,
}

/// Returns whether the kernel ever calls `theirs` with a managed signal unblocked; or, where no
/// mask helps, whether it calls it at all.
fn is_uncovered(signal: i32, way: Way) -> bool {
    install_plainly(signal, theirs, libc::SA_RESTART, &[]);
    install(signal, nothing);
    install(ONE, nothing);
    let ours = installed(signal);
    if let Way::Repair = way {
        signal::uninstall(signal).expect("installed");
        // SAFETY: what was installed.
        unsafe { libc::sigaction(signal, &ours, std::ptr::null_mut()) };
    }
    let placed = placed_by(signal, || {
        match way {
            Way::Uninstall => signal::uninstall(signal).expect("installed"),
            Way::Repair => _ = signal::repair(),
        }
        RUNS.store(0, SeqCst);
        raise(signal);
        assert_eq!(RUNS.load(SeqCst), 1);
    });
    assert!(!placed.is_empty());
    let is_unmaskable = signal != MASKABLE;
    placed.iter().any(|placed| {
        let covers = placed.mask & 1 << (ONE - 1) != 0;
        placed.handler == theirs as *const () as usize && (is_unmaskable || !covers)
    })
}

/// (An adopted handler stays adopted when other code restores the entry.)
const CASES: [(i32, Way); 4] = [
    (MASKABLE, Way::Uninstall),
    (MASKABLE, Way::Repair),
    (libc::SIGABRT, Way::Uninstall),
    (libc::SIGSEGV, Way::Uninstall),
];

/// Four processes.
#[test]
fn a_handler_of_others_that_is_put_back_is_covered_from_the_first_call_on() {
    in_fresh_process(this_test!(), || {
        for (signal, way) in CASES {
            in_child(|| assert!(!is_uncovered(signal, way), "{signal}, {way:?}"));
        }
    });
}

/// One process: the handler is restored with its old mask.
#[test]
fn control_without_widening_it_is_not() {
    in_fresh_process(this_test!(), || {
        // SAFETY: this test expects what follows.
        unsafe { signal_controls::set(signal_controls::WIDENING) };
        assert!(is_uncovered(MASKABLE, Way::Uninstall));
    });
}

/// Using up a one-shot handler makes no system call: such a call could not detect that another
/// thread has just installed another handler, whose signals would then be lost.
#[test]
fn a_handler_that_is_used_up_changes_no_disposition() {
    in_fresh_process(this_test!(), || {
        const IGNORED: i32 = libc::SIGWINCH;
        install_with(IGNORED, count, Options::new().once());
        let placed = placed_by(IGNORED, || {
            let ours = installed(IGNORED).sa_sigaction;
            raise(IGNORED);
            assert!(!signal::is_managed(IGNORED));
            // It meets the default action, which is to ignore it.
            raise(IGNORED);
            assert_eq!(installed(IGNORED).sa_sigaction, ours);
            assert_eq!(RUNS.load(SeqCst), 1);
        });
        assert!(placed.is_empty(), "{placed:x?}");
        // Where the default action ends the process, the kernel performs it.
        install_with(ONE, count, Options::new().once());
        let placed = placed_until_killed(ONE, || {
            raise(ONE);
            raise(ONE);
        });
        assert_eq!(placed.len(), 1);
        assert_eq!(placed[0].handler, libc::SIG_DFL);
    });
}

/// The signal that follows the use of a one-shot handler ends the process, or runs the handler that
/// another thread installs at that time: in each of 300 children.
#[test]
fn a_signal_that_meets_a_used_up_handler_while_another_is_installed_is_not_lost() {
    in_fresh_process(this_test!(), || {
        for round in 0..300 {
            // SAFETY: the child runs on as this process would, whose other thread does nothing.
            let child = unsafe { libc::fork() };
            if child == 0 {
                install_with(ONE, nothing, Options::new().once());
                raise(ONE);
                let barrier = std::sync::Barrier::new(2);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        barrier.wait();
                        for _ in 0..round * 97 {
                            std::hint::spin_loop();
                        }
                        raise(ONE);
                    });
                    barrier.wait();
                    install(ONE, count);
                });
                // SAFETY: ends the child.
                unsafe { libc::_exit(i32::from(RUNS.load(SeqCst) != 1)) };
            }
            let mut status = 0;
            // SAFETY: a child of this process.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            let is_killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == ONE;
            assert!(is_killed || status == 0, "{round}: {status:#x}");
        }
    });
}

/// Returning from a trap's handler does not raise the trap again.
#[test]
fn a_trap_that_meets_a_used_up_or_removed_handler_kills() {
    extern "C" fn theirs_of_trap(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        RUNS.fetch_add(1, SeqCst);
    }
    in_fresh_process(this_test!(), || {
        let ways: [fn(); 2] = [
            || {
                install_plainly(libc::SIGTRAP, theirs_of_trap, libc::SA_RESETHAND, &[]);
                install(ONE, nothing);
                trap();
                assert_eq!(RUNS.load(SeqCst), 1);
            },
            || {
                install(libc::SIGTRAP, nothing);
                let ours = installed(libc::SIGTRAP);
                signal::uninstall(libc::SIGTRAP).expect("installed");
                // SAFETY: the disposition that was installed above.
                unsafe { libc::sigaction(libc::SIGTRAP, &ours, std::ptr::null_mut()) };
            },
        ];
        for way in ways {
            // SAFETY: the child continues as this process would, whose other thread does nothing.
            let child = unsafe { libc::fork() };
            if child == 0 {
                way();
                trap();
                // SAFETY: ends the child.
                unsafe { libc::_exit(1) };
            }
            let mut status = 0;
            // SAFETY: a child of this process.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            let is_killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGTRAP;
            assert!(is_killed, "{status:#x}");
        }
    });
}

fn trap() {
    // SAFETY: raises `SIGTRAP`, and continues after the instruction.
    unsafe { std::arch::asm!("int3") };
}

/// Every function that changes or audits handlers sets the default action.
#[test]
fn a_used_up_handler_is_removed_by_what_changes_handlers_and_by_an_audit() {
    in_fresh_process(this_test!(), || {
        let ways: [fn(); 4] = [
            || assert!(signal::audit().is_clean()),
            || assert!(signal::repair().is_clean()),
            || install(libc::SIGUSR2, nothing),
            || {
                let refused = signal::uninstall(ONE);
                assert_eq!(refused, Err(signal::Error::NotInstalled(ONE)));
            },
        ];
        // Once while no other signal is managed, and once while one is.
        for round in 0..2 {
            for way in ways {
                install_with(ONE, nothing, Options::new().once());
                let ours = installed(ONE);
                raise(ONE);
                assert_ne!(installed(ONE).sa_sigaction, libc::SIG_DFL, "{round}");
                way();
                assert_eq!(installed(ONE).sa_sigaction, libc::SIG_DFL, "{round}");
                // Restored later by other code, the entry is a finding.
                // SAFETY: the disposition that was installed above.
                unsafe { libc::sigaction(ONE, &ours, std::ptr::null_mut()) };
                let put_back = signal::audit()
                    .findings()
                    .map(|finding| finding.fault)
                    .next();
                let is_any = signal::is_managed(libc::SIGUSR2);
                assert_eq!(put_back, is_any.then_some(signal::Fault::PutBack));
                signal::repair();
            }
        }
    });
}
