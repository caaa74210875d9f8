//! Two copies of atomseq in one process: each treats the other's entries as handlers of others.
#![cfg(atomseq_sections)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use atomseq::signal;
use verify_signals::{add_to_three, clear_log, log, log_three, logged};
use verify_support::pages::{Page, install_fault_handler};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::{install, install_plainly, installed, raise};
use verify_support::this_test;

const ONE: i32 = libc::SIGUSR1;
const TWO: i32 = libc::SIGUSR2;

fn note(event: &mut signal::Event<'_>) {
    log(event.signal() as usize);
}

fn note_in_second(event: &mut second_copy::signal::Event<'_>) {
    log(100 + event.signal() as usize);
}

/// Installs a handler through the second copy.
fn install_in_second(signal: i32) {
    // SAFETY: the handler writes to a log.
    unsafe { second_copy::signal::install(signal, note_in_second) }.expect("installed");
}

extern "C" fn theirs(signal: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    log(1000 + signal as usize);
}

/// Installs the program's own handlers: of `SIGABRT`, and of faults, which they repair.
fn install_theirs() {
    install_plainly(libc::SIGABRT, theirs, 0, &[]);
    install_fault_handler();
}

/// Checks that both copies' signals, `SIGABRT` and a fault reach their handlers.
fn all_work() {
    clear_log();
    for signal in [ONE, TWO, libc::SIGABRT] {
        raise(signal);
    }
    let [one, two] = [ONE as usize, 100 + TWO as usize];
    assert_eq!(logged(), [one, two, 1000 + libc::SIGABRT as usize]);
    let page = Page::new();
    page.interrupt(0);
    // SAFETY: a word of the page, which the fault's handler lets be touched.
    unsafe { page.words(0).write_volatile(1) };
}

#[test]
fn handlers_of_the_program_are_called_through_both() {
    in_fresh_process(this_test!(), || {
        install_theirs();
        install(ONE, note);
        install_in_second(TWO);
        all_work();
    });
}

/// A fault without a handler kills the process, through both copies.
#[test]
fn a_fault_without_a_handler_kills() {
    killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        install(libc::SIGSEGV, |event| _ = event.chain());
        install_in_second(TWO);
        let page = Page::new();
        page.interrupt(0);
        // SAFETY: ends the process.
        unsafe { page.words(0).write_volatile(1) };
    });
}

/// The handler of either copy's signal finds the interrupted sequence complete.
#[test]
fn each_copy_s_handlers_find_sequences_whole() {
    in_fresh_process(this_test!(), || {
        static WORDS: AtomicUsize = AtomicUsize::new(0);
        fn look() {
            // SAFETY: the test's three words.
            unsafe { log_three(WORDS.load(SeqCst)) };
        }
        install_theirs();
        install(ONE, |_| look());
        // SAFETY: the handler writes to a log.
        unsafe { second_copy::signal::install(TWO, |_| look()) }.expect("installed");
        signal::repair();
        for signal in [ONE, TWO] {
            clear_log();
            let page = Page::new();
            let words = page.words(1);
            WORDS.store(words as usize, SeqCst);
            page.interrupt(signal);
            // SAFETY: three words of the test's.
            unsafe { add_to_three::rolling(words as usize, 99) };
            assert_eq!(logged(), [1, 1, 1], "signal {signal}");
        }
    });
}

/// A handler of others receives the context that the kernel would have passed.
#[test]
fn an_adopted_handler_finds_no_link_in_its_context() {
    in_fresh_process(this_test!(), || {
        extern "C" fn look(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
            let context: *mut libc::ucontext_t = context.cast();
            // SAFETY: the kernel's context.
            log(unsafe { (*context).uc_link } as usize);
        }
        install_plainly(libc::SIGABRT, look, 0, &[]);
        install(ONE, note);
        install_in_second(TWO);
        let adopted = installed(libc::SIGABRT).sa_sigaction;
        assert_ne!(adopted, look as *const () as usize);
        raise(libc::SIGABRT);
        assert_eq!(logged(), [0]);
    });
}

/// However often each copy repairs its own entries.
#[test]
fn copies_that_repair_in_turn_add_no_layers() {
    in_fresh_process(this_test!(), || {
        install_theirs();
        install(ONE, note);
        install_in_second(TWO);
        let after_each =
            [libc::SIGABRT, libc::SIGSEGV].map(|signal| installed(signal).sa_sigaction);
        for _ in 0..40 {
            install(ONE, note);
            install_in_second(TWO);
            assert!(signal::repair().is_clean());
            assert!(second_copy::signal::repair().is_clean());
            assert!(signal::audit().is_clean());
        }
        let now = [libc::SIGABRT, libc::SIGSEGV].map(|signal| installed(signal).sa_sigaction);
        assert_eq!(now, after_each);
        all_work();
    });
}

#[test]
fn a_handler_that_the_other_copy_has_adopted_is_not_displaced() {
    in_fresh_process(this_test!(), || {
        install(libc::SIGABRT, note);
        install_in_second(TWO);
        let adopted = installed(libc::SIGABRT).sa_sigaction;
        for _ in 0..40 {
            assert!(signal::repair().is_clean());
            assert!(second_copy::signal::repair().is_clean());
        }
        assert_eq!(installed(libc::SIGABRT).sa_sigaction, adopted);
        raise(libc::SIGABRT);
        assert_eq!(logged(), [libc::SIGABRT as usize]);
        // The program's handler, installed over both, belongs to neither copy.
        install_plainly(libc::SIGABRT, theirs, 0, &[]);
        let finding = signal::Finding {
            signal: libc::SIGABRT,
            fault: signal::Fault::Displaced,
        };
        assert_eq!(signal::audit().findings().collect::<Vec<_>>(), [finding]);
        assert!(!second_copy::signal::audit().is_clean());
    });
}

/// Counts what is allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(1, SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A forking thread may hold the allocator's locks and wait for a thread that changes handlers.
#[test]
fn handlers_are_changed_without_the_global_allocator() {
    in_fresh_process(this_test!(), || {
        install_theirs();
        install(ONE, note);
        install_in_second(TWO);
        // SAFETY: as in `install`.
        let changes = || unsafe {
            signal::install(ONE, note).expect("installed");
            second_copy::signal::install(TWO, note_in_second).expect("installed");
            _ = (signal::repair(), second_copy::signal::repair());
            _ = (signal::audit(), second_copy::signal::audit());
        };
        changes();
        let before = ALLOCATED.load(SeqCst);
        changes();
        assert_eq!(ALLOCATED.load(SeqCst), before);
        // The control.
        drop(std::hint::black_box(Box::new(1)));
        assert_eq!(ALLOCATED.load(SeqCst), before + 1);
    });
}
