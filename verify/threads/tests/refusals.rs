//! A system that refuses what a runtime asks for: places in queues, as the addresses of the process
//! are used up, and what ends slices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use atomseq_threads::runtime::{self, Error, Options};
use verify_support::proc::{limit_addresses, page, pages_of_addresses};
use verify_support::processes::in_fresh_process;
use verify_support::sandbox::refuse_all;

/// More threads than there are places in the memory that queues have from the start.
const THREADS: usize = 50_000;

/// A runtime that makes no progress for so long has stopped.
const LIMIT: Duration = Duration::from_secs(120);

/// Ends the process if that is never true. The runtime would not end.
fn until(what: &str, is_true: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        if begin.elapsed() > LIMIT {
            eprintln!("never: {what}");
            std::process::abort();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn threads_without_a_place_in_a_queue_run() {
    static RUN: AtomicUsize = AtomicUsize::new(0);
    static IS_LIMITED: AtomicBool = AtomicBool::new(false);
    static HAS_SLEPT: AtomicBool = AtomicBool::new(false);
    in_fresh_process("threads_without_a_place_in_a_queue_run", || {
        // SAFETY: numbers. The allocator keeps what it has, in one heap.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        }
        let runtime = Options::new().workers(1).start().unwrap();
        let spawns = runtime.spawn(|| {
            // For the entries: those need no more addresses.
            drop(Vec::from_iter((0..THREADS).map(|_| Box::new([1u8; 400]))));
            limit_addresses(pages_of_addresses() * page());
            IS_LIMITED.store(true, SeqCst);
            for _ in 0..THREADS {
                drop(runtime::spawn(|| {
                    RUN.fetch_add(1, SeqCst);
                    runtime::yield_now();
                }));
            }
        });
        until("the spawner spawns all", || spawns.is_finished());
        until("all run", || RUN.load(SeqCst) == THREADS);
        assert!(IS_LIMITED.load(SeqCst));
        drop(runtime.spawn(|| {
            runtime::sleep(Duration::from_millis(3));
            HAS_SLEPT.store(true, SeqCst);
        }));
        until("one sleeps", || HAS_SLEPT.load(SeqCst));
    });
}

#[test]
fn a_runtime_whose_slices_would_not_end_does_not_start() {
    in_fresh_process(
        "a_runtime_whose_slices_would_not_end_does_not_start",
        || {
            for call in [libc::SYS_tgkill, libc::SYS_clock_gettime] {
                let sandboxed = std::thread::spawn(move || {
                    refuse_all(&[call]);
                    Options::new().workers(1).start().map(drop)
                });
                let refused = sandboxed.join().unwrap();
                assert!(matches!(refused, Err(Error::Slices(_))), "{refused:?}");
            }
            Options::new().workers(1).start().unwrap();
        },
    );
}
