//! The instruction that traps: its effect at good addresses, the handling of other undefined
//! instructions, and bad addresses. Test-and-set by a system call.
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

/// Bad addresses: these are the program's own faults.
///
/// Not under qemu's user mode, which takes a signal with such a record for a fault of its own, and
/// ends.
mod bad_addresses {
    use std::sync::atomic::AtomicUsize;

    use verify_papers::instruction::{HERE, length, note_and_skip};
    use verify_papers::{Seen, beyond_the_end_of_a_file, protect, read_only, unmapped};
    use verify_support::signals::{change_mask, is_blocked};

    use super::*;

    const MAPERR: i32 = 1;
    const ACCERR: i32 = 2;
    const READ_AND_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

    fn fault_at(address: usize) -> Seen {
        let before = seen().1;
        execute(address);
        let (fault, count) = seen();
        assert_eq!(count, before + 1, "{address:#x}");
        assert_eq!(fault.program_counter, HERE.load(SeqCst));
        length(fault.program_counter);
        fault
    }

    #[test]
    fn bad_addresses_are_the_programs_own_faults() {
        in_fresh_process(this_test!(), || {
            install_plainly(libc::SIGSEGV, note_and_skip, 0, &[]);
            install_plainly(libc::SIGBUS, note_and_skip, 0, &[]);
            statistics::count(true);
            Trap::start().unwrap();
            let good = pages(1, READ_AND_WRITE);
            let read_only = read_only();
            let forbidden = pages(1, libc::PROT_NONE);
            // Last, or one of the other mappings would be placed there.
            let unmapped = unmapped();
            for (address, signal, code) in [
                (0, libc::SIGSEGV, MAPERR),
                (8, libc::SIGSEGV, MAPERR),
                (unmapped, libc::SIGSEGV, MAPERR),
                (0xffff_8000_0000_0000, libc::SIGSEGV, MAPERR),
                (0xffff_ffff_ffff_fffc, libc::SIGSEGV, MAPERR),
                (0x8000_0000_0000_0000, libc::SIGSEGV, MAPERR),
                (read_only, libc::SIGSEGV, ACCERR),
                (forbidden, libc::SIGSEGV, ACCERR),
                (execute as *const () as usize & !3, libc::SIGSEGV, ACCERR),
                (good + 1, libc::SIGBUS, libc::BUS_ADRALN),
                (good + 4094, libc::SIGBUS, libc::BUS_ADRALN),
                (1, libc::SIGBUS, libc::BUS_ADRALN),
            ] {
                let fault = fault_at(address);
                assert_eq!(
                    (fault.signal, fault.code, fault.address),
                    (signal, code, address),
                    "{address:#x}"
                );
                assert!(!is_blocked(signal), "the mask is what it was");
            }
            // SAFETY: both may be read.
            unsafe {
                assert_eq!((good as *const u64).read_volatile(), 0);
                assert_eq!((read_only as *const u64).read_volatile(), 0);
            }
            assert_eq!(Trap::interventions().emulations, Some(0));
            assert_eq!(execute(good), 0, "and good ones still work");
        });
    }

    #[test]
    fn pages_that_a_file_does_not_have_are_bus_errors() {
        in_fresh_process(this_test!(), || {
            install_plainly(libc::SIGSEGV, note_and_skip, 0, &[]);
            install_plainly(libc::SIGBUS, note_and_skip, 0, &[]);
            Trap::start().unwrap();
            let page = beyond_the_end_of_a_file();
            let fault = fault_at(page);
            assert_eq!(fault.address, page);
            // Kernels before 5.14 do not report the reason.
            let expected = [(libc::SIGBUS, libc::BUS_ADRERR), (libc::SIGSEGV, ACCERR)];
            assert!(expected.contains(&(fault.signal, fault.code)), "{fault:?}");
        });
    }

    /// A fault that is repaired: the instruction is executed again, and succeeds.
    #[test]
    fn a_handler_may_repair_the_fault() {
        static PAGE: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn repair(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
            // SAFETY: the kernel's arguments.
            unsafe { verify_papers::note(signal, info, context) };
            protect(PAGE.load(SeqCst), READ_AND_WRITE);
        }
        in_fresh_process(this_test!(), || {
            install_plainly(libc::SIGSEGV, repair, 0, &[]);
            Trap::start().unwrap();
            let page = read_only();
            PAGE.store(page, SeqCst);
            assert_eq!(execute(page + 16), 0);
            assert_eq!((seen().0.address, seen().1), (page + 16, 1));
            assert_eq!(execute(page + 16), 1);
        });
    }

    #[test]
    fn without_a_handler_a_bad_address_kills() {
        killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
            Trap::start().unwrap();
            execute(0);
        });
    }

    #[test]
    fn a_fault_that_is_blocked_kills_as_any_other() {
        killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
            install_plainly(libc::SIGSEGV, note_and_skip, 0, &[]);
            Trap::start().unwrap();
            change_mask(libc::SIG_BLOCK, &[libc::SIGSEGV]);
            execute(0);
        });
    }

    #[test]
    fn a_fault_that_is_ignored_kills_as_any_other() {
        killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
            // SAFETY: no handler.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
            Trap::start().unwrap();
            execute(0);
        });
    }
}

/// Test-and-set by a system call: whatever the kernel reports about the word's owner, the word
/// decides. And kernels that refuse the call.
mod call {
    use std::time::Duration;

    use atomseq_papers::emulation::{Call, Error};
    use verify_support::sandbox::{always, refuse};

    use super::*;

    #[test]
    fn what_a_thread_holds_it_does_not_get_again() {
        let flag = Call::CLEAR;
        assert!(flag.test_and_set());
        assert!(!flag.test_and_set());
        assert!(flag.is_set());
    }

    #[test]
    fn what_an_ended_thread_holds_stays_held_until_it_is_cleared() {
        let flag = Call::CLEAR;
        assert!(thread::scope(|scope| scope
            .spawn(|| flag.test_and_set())
            .join()
            .unwrap()));
        // Its number is unused now, or another thread's.
        for _ in 0..100 {
            assert!(!flag.test_and_set());
            assert!(!thread::scope(|scope| scope
                .spawn(|| flag.test_and_set())
                .join()
                .unwrap()));
        }
        // SAFETY: the thread has exited, and handed the flag over.
        unsafe { flag.clear() };
        assert!(flag.test_and_set());
    }

    /// While other threads try, the kernel records the holder as the word's owner for a moment, and
    /// a clear by a store does not notify it.
    #[test]
    fn clears_and_attempts_may_meet() {
        static FLAG: Call = Call::CLEAR;
        static HELD: AtomicU32 = AtomicU32::new(0);
        static FAILURES: AtomicU32 = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if FLAG.test_and_set() {
                            assert_eq!(HELD.swap(1, SeqCst), 0, "two hold it");
                            HELD.store(0, SeqCst);
                            // SAFETY: this thread set it.
                            unsafe { FLAG.clear() };
                        } else {
                            FAILURES.fetch_add(1, SeqCst);
                        }
                    }
                });
            }
        });
        println!("found held {} times", FAILURES.load(SeqCst));
        assert!(!FLAG.is_set());
        assert!(FLAG.test_and_set(), "nothing of it is left in the kernel");
    }

    #[test]
    fn where_the_kernel_refuses_the_start_says_so() {
        in_fresh_process(this_test!(), || {
            static DONE: AtomicBool = AtomicBool::new(false);
            thread::spawn(|| {
                refuse(&always(libc::SYS_futex, libc::ENOSYS)).unwrap();
                let expected = |call| Error::Refused {
                    call,
                    errno: libc::ENOSYS,
                };
                assert_eq!(Call::start(), Err(expected("FUTEX_TRYLOCK_PI")));
                assert_eq!(Trap::start(), Err(expected("FUTEX_WAKE_OP")));
                let sentence = expected("FUTEX_WAKE_OP").to_string();
                assert!(sentence.contains("choose another mechanism"), "{sentence}");
                DONE.store(true, SeqCst);
                // It cannot notify the other thread of its end any more.
                thread::sleep(Duration::from_secs(600));
            });
            for _ in 0..1_000 {
                if DONE.load(SeqCst) {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("an assertion failed");
        });
    }
}
