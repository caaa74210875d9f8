//! The trapping instruction at bad addresses: these are the program's own faults.
//!
//! Not under qemu's user mode, which takes a signal with such a record for a fault of its own, and
//! ends.
#![cfg(atomseq_sections)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::mutex::TestAndSet;
use atomseq_papers::emulation::Trap;
use atomseq_papers::statistics;
use verify_papers::instruction::{HERE, execute, length, note_and_skip};
use verify_papers::{Seen, seen};
use verify_papers::{beyond_the_end_of_a_file, pages, protect, read_only, unmapped};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::{change_mask, install_plainly, is_blocked};
use verify_support::this_test;

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
