//! `signal::AlternateStack`: a stack of the right size for each thread, which comes and goes with
//! its guard; and what becomes of the standard library's report of a stack overflow.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use atomseq::signal::{self, AlternateStack, Chained, Error, Event, Options};
use verify_support::processes::{in_fresh_process, killed_in_fresh_process};
use verify_support::signals::{install, install_with, raise};
use verify_support::this_test;

const BYTES: usize = 16 << 10;

fn current() -> libc::stack_t {
    // SAFETY: zero is valid; only asks.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(std::ptr::null(), &mut stack), 0);
        stack
    }
}

fn same(one: &libc::stack_t, other: &libc::stack_t) -> bool {
    (one.ss_sp, one.ss_size, one.ss_flags) == (other.ss_sp, other.ss_size, other.ss_flags)
}

fn is_mapped(stack: &libc::stack_t) -> bool {
    let maps = verify_support::proc::maps();
    let mut mappings = verify_support::proc::mappings(&maps);
    mappings.any(|mapping| mapping.is_writable && mapping.range.contains(&(stack.ss_sp as usize)))
}

fn options() -> Options {
    Options::new().on_alternate_stack(BYTES)
}

static HANDLED: AtomicUsize = AtomicUsize::new(0);
static ON_IT: AtomicUsize = AtomicUsize::new(0);

fn handle(_: &mut Event<'_>) {
    HANDLED.fetch_add(1, SeqCst);
    ON_IT.fetch_add(
        usize::from(current().ss_flags & libc::SS_ONSTACK != 0),
        SeqCst,
    );
}

#[test]
fn handlers_run_on_it_on_each_thread_that_has_one() {
    in_fresh_process(this_test!(), || {
        // SAFETY: the handler adds to statics.
        let refused = unsafe { signal::install_with(libc::SIGUSR1, handle, options()) };
        let is_small = |error| matches!(error, Error::AlternateStackTooSmall { .. });
        assert!(
            refused.is_err_and(is_small),
            "the control: the standard library's is too small"
        );
        let stack = AlternateStack::new(BYTES).expect("memory");
        assert!(stack.size() >= BYTES && current().ss_size == stack.size());
        install_with(libc::SIGUSR1, handle, options());
        raise(libc::SIGUSR1);
        let others = (0..3).map(|_| {
            std::thread::spawn(|| {
                let _stack = AlternateStack::new(BYTES).expect("memory");
                raise(libc::SIGUSR1);
            })
        });
        others
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|other| other.join().expect("it ends"));
        assert_eq!((HANDLED.load(SeqCst), ON_IT.load(SeqCst)), (4, 4));
        drop(stack);
        raise(libc::SIGUSR1);
        assert_eq!(HANDLED.load(SeqCst), 5);
    });
}

#[test]
fn the_stack_before_comes_back_and_the_memory_goes() {
    std::thread::spawn(|| {
        let before = current();
        for _ in 0..1000 {
            let outer = AlternateStack::new(BYTES).expect("memory");
            let own = current();
            let inner = AlternateStack::new(0).expect("memory");
            assert!(is_mapped(&own) && !same(&own, &current()));
            drop(inner);
            assert!(same(&own, &current()));
            drop(outer);
            assert!(same(&before, &current()) && !is_mapped(&own));
        }
    })
    .join()
    .expect("it ends");
}

/// A guard that is dropped before a later one leaves its memory, which the later one restores.
#[test]
fn guards_that_are_dropped_in_the_wrong_order_leave_a_stack_that_exists() {
    std::thread::spawn(|| {
        let outer = AlternateStack::new(BYTES).expect("memory");
        let own = current();
        let inner = AlternateStack::new(BYTES).expect("memory");
        let inners = current();
        drop(outer);
        assert!(same(&inners, &current()) && is_mapped(&own));
        drop(inner);
        assert!(same(&own, &current()) && is_mapped(&own) && !is_mapped(&inners));
    })
    .join()
    .expect("it ends");
}

/// The standard library takes its own stack away before it drops what threads have kept.
#[test]
fn a_guard_that_outlives_its_threads_code_restores_nothing() {
    struct Keep(Option<AlternateStack>);
    impl Drop for Keep {
        fn drop(&mut self) {
            let before = current();
            drop(self.0.take());
            assert!(same(&before, &current()));
            DROPPED.store(true, SeqCst);
        }
    }
    thread_local!(static KEPT: std::cell::RefCell<Keep> = const { std::cell::RefCell::new(Keep(None)) });
    static DROPPED: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        KEPT.with_borrow_mut(|kept| kept.0 = Some(AlternateStack::new(BYTES).expect("memory")));
    })
    .join()
    .expect("it ends");
    assert!(DROPPED.load(SeqCst));
}

/// The return from a handler restores the stack that the thread had when the signal came.
#[test]
fn a_guard_that_a_handler_drops_leaves_a_stack_that_exists() {
    thread_local!(static KEPT: std::cell::Cell<Option<AlternateStack>> = const { std::cell::Cell::new(None) });
    fn drops(_: &mut Event<'_>) {
        drop(KEPT.take());
    }
    fn raises_one_that_drops(_: &mut Event<'_>) {
        raise(libc::SIGUSR1);
        drop(KEPT.take());
    }
    in_fresh_process(this_test!(), || {
        install(libc::SIGUSR1, drops);
        install_with(
            libc::SIGUSR2,
            raises_one_that_drops,
            Options::new().nesting(),
        );
        for (signal, masked) in [
            (libc::SIGUSR1, false),
            (libc::SIGUSR1, true),
            (libc::SIGUSR2, false),
        ] {
            KEPT.set(Some(AlternateStack::new(BYTES).expect("memory")));
            let own = current();
            let masked = masked.then(signal::mask);
            raise(signal);
            drop(masked);
            assert!(KEPT.take().is_none(), "the handler has dropped it");
            assert!(same(&own, &current()) && is_mapped(&own));
            // A guard that the thread itself drops takes its stack away, as before.
            let stack = AlternateStack::new(BYTES).expect("memory");
            let inner = current();
            drop(stack);
            assert!(same(&own, &current()) && !is_mapped(&inner));
        }
    });
}

#[test]
fn a_thread_that_runs_on_it_gets_no_other() {
    static ERROR: AtomicUsize = AtomicUsize::new(0);
    fn wants_another(_: &mut Event<'_>) {
        let is_refused =
            AlternateStack::new(BYTES).is_err_and(|error| error == Error::AlternateStackInUse);
        ERROR.store(1 + usize::from(is_refused), SeqCst);
    }
    in_fresh_process(this_test!(), || {
        let _stack = AlternateStack::new(BYTES).expect("memory");
        install_with(libc::SIGUSR1, wants_another, options());
        raise(libc::SIGUSR1);
        assert_eq!(ERROR.load(SeqCst), 2);
        // SAFETY: another handler.
        install(libc::SIGUSR1, wants_another);
        raise(libc::SIGUSR1);
        assert_eq!(ERROR.load(SeqCst), 1, "not on the thread's own stack");
    });
}

#[test]
fn a_size_that_there_is_no_memory_for_is_refused() {
    for bytes in [usize::MAX, usize::MAX - (64 << 10), usize::MAX / 2] {
        let error = AlternateStack::new(bytes).expect_err("too large");
        assert_eq!(
            error,
            Error::NoAlternateStack {
                errno: libc::ENOMEM
            }
        );
    }
}

/// The page below it has no access: an overflow is a fault, which ends the process.
#[test]
fn an_overflow_of_the_stack_itself_is_a_fault() {
    killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        let _stack = AlternateStack::new(BYTES).expect("memory");
        // SAFETY: a fault, which is what this is about.
        unsafe { current().ss_sp.cast::<u8>().sub(1).write_volatile(1) };
    });
}

/// Uses up its thread's stack.
#[inline(never)]
fn overflow(depth: u64) -> u64 {
    let room = std::hint::black_box([depth; 64]);
    match depth {
        u64::MAX => 0,
        _ => overflow(depth + 1) + std::hint::black_box(&room)[0],
    }
}

const MESSAGE: &str = "has overflowed its stack";

fn chain(event: &mut Event<'_>) {
    if event.chain() == Chained::Default {
        event.default_action();
    }
}

#[test]
fn the_report_of_a_stack_overflow_comes_by_chaining_on_an_alternate_stack() {
    let errors = killed_in_fresh_process(this_test!(), libc::SIGABRT, || {
        let _stack = AlternateStack::new(BYTES).expect("memory");
        install_with(libc::SIGSEGV, chain, options());
        overflow(0);
    });
    if let Some(errors) = errors {
        assert!(errors.contains(MESSAGE), "{errors}");
    }
}

/// As documented: a handler on the thread's own stack has no room to run.
#[test]
fn control_without_an_alternate_stack_there_is_no_report() {
    let errors = killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        install(libc::SIGSEGV, chain);
        overflow(0);
    });
    if let Some(errors) = errors {
        assert!(!errors.contains(MESSAGE), "{errors}");
    }
}

/// Any other fault ends the process by its signal: the standard library's handler sees to that.
#[test]
fn chaining_after_another_fault_ends_the_process() {
    killed_in_fresh_process(this_test!(), libc::SIGSEGV, || {
        let _stack = AlternateStack::new(BYTES).expect("memory");
        install_with(libc::SIGSEGV, chain, options());
        // SAFETY: a fault, which is what this is about.
        unsafe {
            std::hint::black_box(std::ptr::without_provenance_mut::<u64>(8)).write_volatile(1)
        };
    });
}
