//! The trapping instruction: its effect at good addresses, and the handling of other undefined
//! instructions.
#![cfg(atomseq_sections)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq::signal::{self, Event};
use atomseq_papers::emulation::Trap;
use atomseq_papers::statistics;
use verify_papers::instruction::execute;
use verify_papers::pages;
use verify_papers::seen;
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::{install_plainly, raise};
use verify_support::this_test;

#[test]
fn good_addresses_are_set_and_the_old_value_comes_back() {
    in_fresh_process(this_test!(), || {
        statistics::count(true);
        Trap::start().unwrap();
        let mut words = [0u32, 0, 0x8000_0000];
        let start = words.as_mut_ptr() as usize;
        assert_eq!(execute(start), 0);
        assert_eq!(execute(start), 1);
        assert_eq!(execute(start + 8), 0x8000_0000);
        // SAFETY: the words' current values.
        assert_eq!(unsafe { (&raw const words).read_volatile() }, [1, 0, 1]);
        assert_eq!(Trap::interventions().emulations, Some(3));
        // Fresh memory is not resident, and is allocated by the first write.
        let page = pages(1, libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(execute(page + 4092), 0);
        assert_eq!(execute(page + 4092), 1);
    });
}

/// An undefined instruction of another library.
fn undefined() {
    // SAFETY: its handler continues after it, or the process ends.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("ud2")
    };
    // SAFETY: its handler continues after it, or the process ends.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("udf #7")
    };
}

#[test]
fn other_undefined_instructions_find_the_programs_own_handler() {
    extern "C" fn skip(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel's arguments.
        unsafe { verify_papers::note(signal, info, context) };
        let counter = verify_papers::program_counter(context);
        let length = if cfg!(target_arch = "x86_64") { 2 } else { 4 };
        // SAFETY: continues after the instruction.
        unsafe { counter.write(counter.read() + length) };
    }
    in_fresh_process(this_test!(), || {
        install_plainly(libc::SIGILL, skip, 0, &[]);
        Trap::start().unwrap();
        undefined();
        assert_eq!((seen().0.signal, seen().1), (libc::SIGILL, 1));
        raise(libc::SIGILL);
        assert_eq!(seen().1, 2, "and so do signals that are sent");
    });
}

#[test]
fn other_undefined_instructions_kill_without_a_handler() {
    killed_in_fresh_process(this_test!(), libc::SIGILL, || {
        Trap::start().unwrap();
        undefined();
    });
}

#[test]
fn a_signal_that_is_sent_kills_without_a_handler() {
    killed_in_fresh_process(this_test!(), libc::SIGILL, || {
        Trap::start().unwrap();
        raise(libc::SIGILL);
    });
}

#[test]
fn a_signal_that_is_ignored_and_sent_does_nothing() {
    in_fresh_process(this_test!(), || {
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGILL, libc::SIG_IGN) };
        Trap::start().unwrap();
        raise(libc::SIGILL);
        let mut word = 0u32;
        assert_eq!(execute((&raw mut word) as usize), 0);
    });
}

#[test]
fn control_without_the_handler_the_instruction_kills() {
    killed_in_fresh_process(this_test!(), libc::SIGILL, || {
        let mut word = 0u32;
        execute((&raw mut word) as usize);
    });
}

/// Handlers run between rounds and in the middle, and execute the instruction themselves; no old
/// value is lost.
#[test]
fn signals_may_come_at_any_time() {
    static THEIRS: AtomicU32 = AtomicU32::new(0);
    static RUNS: AtomicU32 = AtomicU32::new(0);
    fn managed(_event: &mut Event<'_>) {
        assert_eq!(execute(THEIRS.as_ptr() as usize), 0);
        THEIRS.store(0, SeqCst);
        RUNS.fetch_add(1, SeqCst);
    }
    in_fresh_process(this_test!(), || {
        // SAFETY: the handler executes the instruction, adds to a static, and ends the process
        // where it fails.
        unsafe { signal::install(libc::SIGUSR1, managed) }.unwrap();
        Trap::start().unwrap();
        static ROUNDS: AtomicU32 = AtomicU32::new(0);
        static DONE: AtomicBool = AtomicBool::new(false);
        // SAFETY: this thread, which outlives the other.
        let this = unsafe { libc::pthread_self() };
        thread::scope(|scope| {
            scope.spawn(move || {
                for spins in (0..2_000).step_by(7).cycle() {
                    // A handler takes longer than a round: without a pause between handlers the
                    // rounds would make no progress.
                    let (runs, rounds) = (RUNS.load(SeqCst), ROUNDS.load(SeqCst));
                    // SAFETY: the thread is still running.
                    unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                    while RUNS.load(SeqCst) == runs || ROUNDS.load(SeqCst) == rounds {
                        if DONE.load(SeqCst) {
                            return;
                        }
                        thread::yield_now();
                    }
                    (0..spins).for_each(|_| std::hint::spin_loop());
                }
            });
            let ours = AtomicU32::new(0);
            while RUNS.load(SeqCst) < 300 {
                assert_eq!(execute(ours.as_ptr() as usize), 0);
                assert_eq!(execute(ours.as_ptr() as usize), 1);
                ours.store(0, SeqCst);
                ROUNDS.fetch_add(1, SeqCst);
            }
            DONE.store(true, SeqCst);
        });
    });
}
