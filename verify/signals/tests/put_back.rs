//! The kernel's disposition of a signal while atomseq restores a handler of others, system call by
//! system call: a tracer stops the process at each. From the first call on, a signal may arrive in
//! the middle of a sequence.
#![cfg(all(atomseq_sections, target_arch = "x86_64"))]

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::internals::signal_controls;
use atomseq::signal::{self, Event};
use verify_support::processes::{in_child, in_fresh_process};
use verify_support::signals::{install, install_plainly, installed, raise};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const MASKABLE: i32 = 64;

static RUNS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn theirs(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    RUNS.fetch_add(1, SeqCst);
}

fn nothing(_: &mut Event<'_>) {}

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
        if libc::WIFEXITED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0);
            return placed;
        }
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
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
