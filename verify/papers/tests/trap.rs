//! The emulated instruction: what it does to good addresses, and what becomes of bad ones.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(atomseq_portable)
))]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread;

use atomseq::mutex::TestAndSet;
use atomseq::signal::{self, Event};
use atomseq_papers::emulation::{Trap, test_and_set_at};
use atomseq_papers::statistics;
use verify_papers::faults::{self, Seen, seen};
use verify_papers::memory::{beyond_the_end_of_a_file, pages, protect, read_only, unmapped};
use verify_signals::fresh::{in_fresh_process, killed_in_fresh_process};
use verify_signals::signals::{change_mask, install_plainly, is_blocked, raise};
use verify_signals::this_test;

const MAPERR: i32 = 1;
const ACCERR: i32 = 2;
const READ_AND_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Executes the instruction, at the same place every time.
#[inline(never)]
fn execute(address: usize) -> u32 {
    // SAFETY: good addresses are words that these tests access in no other way meanwhile; the rest are what is tested.
    unsafe { test_and_set_at(address as *mut u32) }
}

/// Where the instruction is: where its fault was.
static HERE: AtomicUsize = AtomicUsize::new(0);

/// Notes the fault, and goes on behind the instruction.
extern "C" fn note_and_skip(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel gave.
    unsafe { faults::note(signal, info, context) };
    let counter = faults::program_counter(context);
    // SAFETY: in the context; the instruction's length follows from its first bytes, and its result is nobody's.
    unsafe {
        HERE.store(counter.read() as usize, SeqCst);
        counter.write(counter.read() + length(counter.read() as usize));
    }
}

/// How long the instruction at an address is, and is it one?
#[cfg(target_arch = "x86_64")]
fn length(at: usize) -> u64 {
    // SAFETY: code, which may be read.
    let byte = |offset: usize| unsafe { ((at + offset) as *const u8).read() };
    let prefix = usize::from(byte(0) >> 4 == 4);
    assert_eq!(
        (byte(prefix), byte(prefix + 1)),
        (0x0f, 0xb9),
        "no ud1 at {at:#x}"
    );
    let is_indexed = byte(prefix + 2) & 7 == 4;
    (prefix + 7 + usize::from(is_indexed)) as u64
}

/// How long the instruction at an address is, and is it one?
#[cfg(target_arch = "aarch64")]
fn length(at: usize) -> u64 {
    // SAFETY: code, which may be read.
    let word = unsafe { (at as *const u32).read() };
    assert_eq!(word >> 16, 0, "no udf at {at:#x}");
    8
}

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
fn good_addresses_are_set_and_the_old_value_comes_back() {
    in_fresh_process(this_test!(), || {
        statistics::count(true);
        Trap::start().unwrap();
        let mut words = [0u32, 0, 0x8000_0000];
        let start = words.as_mut_ptr() as usize;
        assert_eq!(execute(start), 0);
        assert_eq!(execute(start), 1);
        assert_eq!(execute(start + 8), 0x8000_0000);
        // SAFETY: as they are now.
        assert_eq!(unsafe { (&raw const words).read_volatile() }, [1, 0, 1]);
        assert_eq!(Trap::interventions().emulations, Some(3));
        // Fresh memory is not there yet, and is made by the first write.
        let page = pages(1, READ_AND_WRITE);
        assert_eq!(execute(page + 4092), 0);
        assert_eq!(execute(page + 4092), 1);
    });
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
        // Last, or one of the others would be put there.
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
        // Kernels before 5.14 do not tell why.
        let expected = [(libc::SIGBUS, libc::BUS_ADRERR), (libc::SIGSEGV, ACCERR)];
        assert!(expected.contains(&(fault.signal, fault.code)), "{fault:?}");
    });
}

/// A fault that is repaired: the instruction is executed again, and succeeds.
#[test]
fn a_handler_may_repair_the_fault() {
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn repair(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: what the kernel gave.
        unsafe { faults::note(signal, info, context) };
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

/// An undefined instruction of somebody else's.
fn undefined() {
    // SAFETY: its handler goes on behind it, or the process ends.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("ud2")
    };
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("udf #7")
    };
}

#[test]
fn other_undefined_instructions_find_the_programs_own_handler() {
    extern "C" fn skip(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: what the kernel gave.
        unsafe { faults::note(signal, info, context) };
        let counter = faults::program_counter(context);
        let length = if cfg!(target_arch = "x86_64") { 2 } else { 4 };
        // SAFETY: goes on behind the instruction.
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

/// Handlers come between and in the middle, and execute the instruction themselves; nobody's old value gets lost.
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
        // SAFETY: the handler executes the instruction, adds to a static, and ends the process where it fails.
        unsafe { signal::install(libc::SIGUSR1, managed) }.unwrap();
        Trap::start().unwrap();
        static DONE: AtomicBool = AtomicBool::new(false);
        // SAFETY: this thread, which outlives the other.
        let this = unsafe { libc::pthread_self() };
        thread::scope(|scope| {
            scope.spawn(move || {
                while !DONE.load(SeqCst) {
                    // SAFETY: it runs still.
                    unsafe { libc::pthread_kill(this, libc::SIGUSR1) };
                    thread::yield_now();
                }
            });
            let ours = AtomicU32::new(0);
            let mut rounds = 0u64;
            while RUNS.load(SeqCst) < 2_000 || rounds < 2_000 {
                assert_eq!(execute(ours.as_ptr() as usize), 0);
                assert_eq!(execute(ours.as_ptr() as usize), 1);
                ours.store(0, SeqCst);
                rounds += 1;
            }
            DONE.store(true, SeqCst);
        });
    });
}
