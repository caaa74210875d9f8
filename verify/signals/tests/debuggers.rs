//! Breakpoints in sequences, set by a debugger or by the kernel for a tracer. Installing a handler
//! decodes every sequence and must not report a breakpoint as damage. And a tracer that steps.
#![cfg(atomseq_sections)]

use atomseq::internals::table::{self, Row};
#[cfg(target_arch = "x86_64")]
use atomseq::signal::Interrupted;
use atomseq::signal::{self, Event};
use verify_signals::add_to_three;
use verify_support::processes::in_fresh_process;
#[cfg(target_arch = "x86_64")]
use verify_support::processes::{code_of, fork, start_child};
use verify_support::signals::install;
use verify_support::this_test;

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[cfg(target_arch = "x86_64")]
const BREAKPOINT: &[u8] = &[0xcc];
#[cfg(target_arch = "aarch64")]
const BREAKPOINT: &[u8] = &0xd420_0000u32.to_le_bytes();

/// Instructions that no sequence contains: `ud2`, `udf`.
#[cfg(target_arch = "x86_64")]
const DAMAGE: &[u8] = &[0x0f, 0x0b];
#[cfg(target_arch = "aarch64")]
const DAMAGE: &[u8] = &[0; 4];

/// Writes bytes over code, runs `body`, and restores the code.
fn with_bytes_over(address: usize, bytes: &[u8], body: impl FnOnce()) {
    let page = address & !4095;
    // SAFETY: pages of this program's code, which stays executable, and which no other thread
    // changes. Nothing runs the sequence meanwhile.
    unsafe {
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let result = libc::mprotect(page as *mut libc::c_void, 8192, all);
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        let code = std::slice::from_raw_parts_mut(address as *mut u8, bytes.len());
        let before = code.to_vec();
        code.copy_from_slice(bytes);
        body();
        code.copy_from_slice(&before);
    }
}

fn nothing(_: &mut Event<'_>) {}

/// Returns the rows of this program, at least one of which has a clone.
fn rows() -> Vec<Row> {
    let mut words = [0usize; 3];
    // SAFETY: three words of this function's.
    unsafe { add_to_three::rolling(words.as_mut_ptr() as usize, 99) };
    table::refresh();
    let rows: Vec<Row> = table::rows().collect();
    assert!(rows.iter().any(|row| row.clone.is_some()));
    rows
}

/// Plants two breakpoints in each sequence of this program that has a clone, and one in every
/// other.
#[test]
fn a_breakpoint_in_a_sequence_or_its_clone_does_not_keep_a_handler_from_being_installed() {
    in_fresh_process(this_test!(), || {
        let mut planted = 0;
        for row in rows() {
            for place in [Some(row.start), row.clone.map(|clone| clone.start)] {
                let Some(place) = place else { continue };
                with_bytes_over(place, BREAKPOINT, || {
                    install(libc::SIGUSR1, nothing);
                    assert!(signal::audit().is_clean());
                });
                planted += 1;
            }
        }
        assert!(planted > 1, "{planted}");
    });
}

#[test]
fn control_damage_is_noticed() {
    in_fresh_process(this_test!(), || {
        let row = rows()[0];
        with_bytes_over(row.start, DAMAGE, || {
            install(libc::SIGUSR1, nothing);
            let audit = signal::audit();
            assert_eq!((audit.unprotected(), audit.is_clean()), (1, false));
            assert_eq!(table::find(row.start + 1), None);
        });
    });
}

/// A tracer steps a thread through a rolling sequence, delivers a signal at each instruction in
/// turn, steps through its delivery and lets go of the thread. The thread continues, and the signal
/// has met the sequence in its middle at least once.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_thread_that_is_stepped_through_a_rollforward_survives_the_tracer() {
    /// Continues by one instruction, with `signal`. Returns the signal of the next stop and whether
    /// it is of an `int3`.
    fn step(child: libc::pid_t, signal: i32) -> (i32, bool) {
        let mut status = 0;
        // SAFETY: a stopped child that this process traces; both results are local.
        unsafe {
            libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, signal);
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert!(
                libc::WIFSTOPPED(status),
                "ended while it was stepped: {status:#x}"
            );
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETSIGINFO, child, 0, &mut info);
            (libc::WSTOPSIG(status), info.si_code == libc::SI_KERNEL)
        }
    }

    /// Returns the child's exit code: 1 if its sequence was rolled forward.
    fn traced(steps_before: usize) -> i32 {
        let child = start_child(fork, || {
            static IS_ROLLED: AtomicBool = AtomicBool::new(false);
            install(libc::SIGUSR1, |event| {
                IS_ROLLED.fetch_or(event.interrupted() == Interrupted::RolledForward, SeqCst);
            });
            let mut words = [0usize; 3];
            // SAFETY: the tracer waits for both traps; three words of this function's.
            unsafe {
                assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0), 0);
                std::arch::asm!("int3");
                add_to_three::rolling(words.as_mut_ptr() as usize, 99);
                std::arch::asm!("int3");
            }
            assert_eq!(words, [1; 3]);
            IS_ROLLED.load(SeqCst).into()
        });
        let mut status = 0;
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert!(libc::WIFSTOPPED(status), "cannot be traced: {status:#x}");
        let mut is_at_end = (0..steps_before).any(|_| step(child, 0).1);
        let mut signal = libc::SIGUSR1;
        while !is_at_end {
            let (stop, is_trap) = step(child, signal);
            is_at_end = is_trap;
            signal = if stop == libc::SIGTRAP { 0 } else { stop };
        }
        // SAFETY: a stopped child that this process traces.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, child, 0, 0) };
        code_of(child)
    }

    in_fresh_process(this_test!(), || {
        let codes: Vec<i32> = (0..40).map(traced).collect();
        assert!(codes.iter().all(|code| matches!(code, 0 | 1)), "{codes:?}");
        assert!(
            codes.contains(&1),
            "no signal came in the sequence: {codes:?}"
        );
    });
}
