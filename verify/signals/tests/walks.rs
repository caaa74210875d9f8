//! Forks while another thread walks through the loaded objects. The test defines its own
//! `dl_iterate_phdr`, which stops where it would hold glibc's lock.
#![cfg(all(atomseq_sections, target_env = "gnu"))]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::signal;
use verify_support::processes::{code_of_child, in_fresh_process};
use verify_support::signals::{install, kernel_mask};
use verify_support::this_test;

type Visitor = unsafe extern "C" fn(*mut libc::dl_phdr_info, usize, *mut c_void) -> i32;

/// The next walk stops.
static ARMED: AtomicBool = AtomicBool::new(false);
/// An armed walk is in progress: glibc's lock is held.
static INSIDE: AtomicBool = AtomicBool::new(false);
/// The mask with which it began.
static MASK: AtomicU64 = AtomicU64::new(0);
/// The walk stays stopped until the handler has run.
static HANDLED_FIRST: AtomicBool = AtomicBool::new(false);
/// A fork has begun; atomseq's atfork handlers have not run yet.
static FORKING: AtomicBool = AtomicBool::new(false);
/// The fork is over.
static FORKED: AtomicBool = AtomicBool::new(false);

fn await_flag(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Replaces the C library's function.
#[unsafe(no_mangle)]
unsafe extern "C" fn dl_iterate_phdr(visitor: Option<Visitor>, data: *mut c_void) -> i32 {
    let stands_still = ARMED.swap(false, SeqCst);
    if stands_still {
        MASK.store(kernel_mask(), SeqCst);
        INSIDE.store(true, SeqCst);
        await_flag(&FORKING);
        // Long enough for a fork that does not wait. A fork that waits may give up after a second.
        thread::sleep(Duration::from_millis(50));
        while HANDLED_FIRST.load(SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
    }
    // SAFETY: looks a name up; it is a function of this type.
    let result = unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, c"dl_iterate_phdr".as_ptr());
        let next: unsafe extern "C" fn(Option<Visitor>, *mut c_void) -> i32 =
            std::mem::transmute(next);
        next(visitor, data)
    };
    if stands_still {
        INSIDE.store(false, SeqCst);
    }
    result
}

unsafe extern "C" fn prepare() {
    FORKING.store(true, SeqCst);
}

unsafe extern "C" fn parent() {
    FORKED.store(true, SeqCst);
}

fn watch_forks() {
    install(libc::SIGUSR1, |_| ());
    // Registered last, `prepare` runs before atomseq's.
    // SAFETY: functions that live as long as the process.
    let registered = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), None) };
    assert_eq!(registered, 0);
}

#[test]
fn a_fork_waits_for_the_end_of_a_walk() {
    in_fresh_process(this_test!(), || {
        watch_forks();
        ARMED.store(true, SeqCst);
        let walker = thread::spawn(signal::audit);
        await_flag(&INSIDE);
        assert_eq!(code_of_child(|| i32::from(INSIDE.load(SeqCst))), 0);
        assert!(walker.join().expect("the thread returns").is_clean());
    });
}

/// The signals that a thread leaves unblocked while it waits for glibc's lock: another thread that
/// holds the lock may wait for a handler on this one, and so may what a fork waits for.
#[test]
fn neither_a_walk_nor_a_fork_that_waits_for_it_blocks_anything() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    fn see(_: &mut signal::Event<'_>) {
        SEEN.store(true, SeqCst);
    }
    in_fresh_process(this_test!(), || {
        watch_forks();
        install(libc::SIGUSR2, see);
        ARMED.store(true, SeqCst);
        let before = kernel_mask();
        let walker = thread::spawn(signal::audit);
        await_flag(&INSIDE);
        assert_eq!(MASK.load(SeqCst), before);
        // SAFETY: this thread's identity.
        let forker = unsafe { libc::pthread_self() };
        // The walk ends when the handler has run on the thread that waits for it.
        HANDLED_FIRST.store(true, SeqCst);
        let sender = thread::spawn(move || {
            await_flag(&FORKING);
            thread::sleep(Duration::from_millis(20));
            // SAFETY: a thread that waits for this one.
            unsafe { libc::pthread_kill(forker, libc::SIGUSR2) };
            // Well below the second after which a fork gives up.
            let handled = (0..400).any(|_| {
                thread::sleep(Duration::from_millis(1));
                SEEN.load(SeqCst)
            });
            HANDLED_FIRST.store(false, SeqCst);
            handled
        });
        assert_eq!(code_of_child(|| 0), 0);
        assert!(
            sender.join().expect("the thread returns"),
            "blocked while it waits"
        );
        assert!(walker.join().expect("the thread returns").is_clean());
    });
}

/// A thread holds glibc's lock in a callback, as the one that this walk waits for.
#[test]
fn a_walk_does_not_wait_for_another_one() {
    in_fresh_process(this_test!(), || {
        install(libc::SIGUSR1, |_| ());
        ARMED.store(true, SeqCst);
        HANDLED_FIRST.store(true, SeqCst);
        FORKING.store(true, SeqCst);
        let walker = thread::spawn(signal::audit);
        await_flag(&INSIDE);
        let is_at_once = (0..5).any(|_| {
            let begun = Instant::now();
            assert!(signal::audit().is_clean());
            begun.elapsed() < Duration::from_millis(500)
        });
        assert!(is_at_once && INSIDE.load(SeqCst));
        HANDLED_FIRST.store(false, SeqCst);
        assert!(walker.join().expect("the thread returns").is_clean());
    });
}

/// A walk of the program's own: forks do not wait for it.
#[test]
fn control_a_fork_copies_a_walk_that_atomseq_does_not_make() {
    in_fresh_process(this_test!(), || {
        unsafe extern "C" fn wait(_: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> i32 {
            await_flag(&FORKED);
            1
        }
        watch_forks();
        ARMED.store(true, SeqCst);
        // SAFETY: the visitor looks at nothing.
        let walker = thread::spawn(|| unsafe { dl_iterate_phdr(Some(wait), std::ptr::null_mut()) });
        await_flag(&INSIDE);
        assert_eq!(code_of_child(|| i32::from(INSIDE.load(SeqCst))), 1);
        assert_eq!(walker.join().expect("the thread returns"), 1);
    });
}

/// A fork inside a callback, which runs with glibc's lock held, and another thread's walk that
/// waits for that lock: neither waits indefinitely for the other.
#[test]
fn a_fork_inside_a_callback_never_waits_indefinitely_for_a_walk() {
    in_fresh_process(this_test!(), || {
        static WALKER: AtomicBool = AtomicBool::new(false);
        unsafe extern "C" fn fork(_: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> i32 {
            ARMED.store(true, SeqCst);
            WALKER.store(true, SeqCst);
            await_flag(&INSIDE);
            assert_eq!(code_of_child(|| 0), 0);
            1
        }
        watch_forks();
        let walker = thread::spawn(|| {
            await_flag(&WALKER);
            signal::audit()
        });
        // SAFETY: the visitor looks at nothing.
        let forked = unsafe { dl_iterate_phdr(Some(fork), std::ptr::null_mut()) };
        assert_eq!(forked, 1);
        assert!(walker.join().expect("the thread returns").is_clean());
    });
}
