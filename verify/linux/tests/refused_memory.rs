//! The system refuses memory to one call because another call has received the last of it: the
//! first call finds that memory.
//!
//! A filter traps the first call for memory. The handler of `SIGSYS` lets the same memory be needed
//! meanwhile, by itself or by another thread, and then answers that there is none. Or a thread has
//! mapped the last memory, and is stopped before it can publish it: another thread waits for it and
//! yields the processor, which the filter traps as well.
#![cfg(atomseq_sections)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

use atomseq::percpu::{Counter, Stack};
use atomseq::type_stable::Pool;
use verify_support::processes::{Circumstances, in_fresh_process_under};
use verify_support::sandbox::{
    Answer, Refusal, When, end_trapped_call, install_answer, refuse, second_argument, trapped_call,
};
use verify_support::this_test;

/// The action in the middle of the next trapped call.
static MEANWHILE: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

fn is_armed() -> bool {
    MEANWHILE.lock().expect("no panic").is_some()
}

extern "C" fn answer(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let meanwhile = MEANWHILE.lock().expect("no panic").take();
    // SAFETY: the context is this handler's; the signal is one that the handler expects.
    unsafe {
        let Some(meanwhile) = meanwhile else {
            return end_trapped_call(context, map_elsewhere(second_argument(context)));
        };
        let mut own: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut own, libc::SIGSYS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &own, std::ptr::null_mut());
        meanwhile();
        end_trapped_call(context, -i64::from(libc::ENOMEM));
    }
}

/// Maps memory with an address hint, which the filter lets pass.
fn map_elsewhere(bytes: usize) -> i64 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let hint = std::ptr::without_provenance_mut(0x1000_0000_1000);
    // SAFETY: a new mapping.
    unsafe { libc::mmap(hint, bytes, access, kind, -1, 0) as i64 }
}

/// Calls `first`, and `second` in the middle of its call for memory: in a handler, or in another
/// thread.
fn in_the_middle(by_handler: bool, first: impl FnOnce(), second: impl FnOnce() + Send + 'static) {
    let (begin, begun) = channel::<()>();
    let (end, ended) = channel();
    let (own, others) = if by_handler {
        (Some(second), None)
    } else {
        (None, Some(second))
    };
    let other = std::thread::spawn(move || {
        begun.recv().expect("the first one");
        others.into_iter().for_each(|work| work());
        end.send(()).expect("the first one");
        begun.recv().expect_err("the end");
    });
    install_answer(answer);
    let ended = Mutex::new(ended);
    let again = begin.clone();
    *MEANWHILE.lock().expect("no panic") = Some(Box::new(move || {
        own.into_iter().for_each(|work| work());
        again.send(()).expect("the other one");
        ended
            .lock()
            .expect("no panic")
            .recv()
            .expect("the other one");
    }));
    let refusal = Refusal {
        call: libc::SYS_mmap,
        answer: Answer::Trap,
        when: When::Equals(0),
    };
    refuse(&refusal).expect("filters need no privileges");
    first();
    assert!(!is_armed(), "no memory was asked for");
    drop(begin);
    other.join().expect("no panic");
}

/// Runs once in a handler, and once in a thread.
fn in_both_ways(test: &str, check: impl Fn(bool)) {
    for way in ["handler", "thread"] {
        let circumstances = Circumstances {
            environment: vec![("WAY", way)],
            ..Circumstances::default()
        };
        let check = || {
            atomseq::status();
            check(std::env::var("WAY").expect("said by the parent") == "handler");
        };
        if in_fresh_process_under(test, circumstances, check).is_none() {
            return;
        }
    }
}

#[test]
fn small_structures_share_what_another_call_has_mapped() {
    in_both_ways(this_test!(), |by_handler| {
        let mut counters = Vec::with_capacity(10_000);
        let make = || Counter::try_new().expect("memory");
        let until_trapped = || {
            while is_armed() && counters.len() < counters.capacity() {
                counters.push(make());
            }
        };
        in_the_middle(by_handler, until_trapped, move || drop(make()));
    });
}

/// A sandbox that refuses every unmapping, so that what is dropped is kept.
#[test]
fn a_mapping_that_another_call_drops_is_used() {
    in_both_ways(this_test!(), |by_handler| {
        let refusal = Refusal {
            call: libc::SYS_munmap,
            answer: Answer::Error(libc::EPERM),
            when: When::Always,
        };
        refuse(&refusal).expect("filters need no privileges");
        let make = || Stack::<u64>::try_with_capacity_per_cpu(10_000).expect("memory");
        let dropped = make();
        in_the_middle(by_handler, || drop(make()), move || drop(dropped));
    });
}

/// The first thread has mapped the last memory and is stopped; it may continue; it has received
/// what it needs.
static HELD_UP: AtomicBool = AtomicBool::new(false);
static MAY_CONTINUE: AtomicBool = AtomicBool::new(false);
static IS_DONE: AtomicBool = AtomicBool::new(false);
/// The other thread has waited.
static HAS_WAITED: AtomicBool = AtomicBool::new(false);

/// Waits without a call that is trapped.
fn wait_for(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

extern "C" fn hold_up(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the context is this handler's.
    unsafe {
        let result = match trapped_call(context) {
            libc::SYS_mmap if !HELD_UP.load(SeqCst) => {
                let mapped = map_elsewhere(second_argument(context));
                HELD_UP.store(true, SeqCst);
                wait_for(&MAY_CONTINUE);
                mapped
            }
            libc::SYS_mmap => {
                MAY_CONTINUE.store(true, SeqCst);
                -i64::from(libc::ENOMEM)
            }
            _ => {
                HAS_WAITED.store(true, SeqCst);
                MAY_CONTINUE.store(true, SeqCst);
                wait_for(&IS_DONE);
                0
            }
        };
        end_trapped_call(context, result);
    }
}

fn trap(call: libc::c_long, when: When) {
    let answer = Answer::Trap;
    refuse(&Refusal { call, answer, when }).expect("filters need no privileges");
}

/// `prepare` returns a need. One thread has it until it has mapped memory for it, and is stopped
/// there; another thread has it once.
fn while_another_is_held_up<N: Fn() + Send + Copy>(test: &str, prepare: impl FnOnce() -> N) {
    in_fresh_process_under(test, Circumstances::default(), || {
        atomseq::status();
        let need = prepare();
        install_answer(hold_up);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                trap(libc::SYS_mmap, When::Equals(0));
                while !HELD_UP.load(SeqCst) {
                    need();
                }
                IS_DONE.store(true, SeqCst);
            });
            wait_for(&HELD_UP);
            scope.spawn(move || {
                trap(libc::SYS_mmap, When::Equals(0));
                trap(libc::SYS_sched_yield, When::Always);
                need();
            });
        });
        assert!(HAS_WAITED.load(SeqCst), "it did not wait");
    });
}

#[test]
fn a_pool_waits_for_what_another_thread_has_mapped() {
    while_another_is_held_up(this_test!(), || {
        let pool = Pool::options().cached(0).try_build().expect("a pool");
        let pool: &Pool<AtomicU64> = Box::leak(Box::new(pool));
        move || pool.allocate().expect("memory").store(1, SeqCst)
    });
}

#[test]
fn small_structures_wait_for_what_another_thread_has_mapped() {
    while_another_is_held_up(this_test!(), || {
        || std::mem::forget(Counter::try_new().expect("memory"))
    });
}
