//! A system that refuses what a runtime asks for: places in queues, as the addresses of the process
//! are used up, and what ends slices.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use atomseq_threads::runtime::{self, Builder, Error, LEVELS, Options};
use verify_support::proc::{limit_addresses, page, pages_of_addresses};
use verify_support::processes::in_fresh_process;
use verify_support::sandbox::{Answer, Refusal, When, refuse, refuse_all};

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

/// Lets this process have no more addresses, and the allocator enough for the entries of threads.
fn without_more_addresses() {
    // SAFETY: numbers. The allocator keeps what it has, in one heap.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
    drop(Vec::from_iter(
        (0..2 * THREADS).map(|_| Box::new([1u8; 400])),
    ));
    limit_addresses(pages_of_addresses() * page());
}

#[test]
fn threads_without_a_place_in_a_queue_run() {
    static RUN: AtomicUsize = AtomicUsize::new(0);
    static IS_LIMITED: AtomicBool = AtomicBool::new(false);
    static HAS_SLEPT: AtomicBool = AtomicBool::new(false);
    in_fresh_process("threads_without_a_place_in_a_queue_run", || {
        let runtime = Options::new().workers(1).start().unwrap();
        let spawns = runtime.spawn(|| {
            without_more_addresses();
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
fn threads_without_a_place_have_the_turns_of_their_levels() {
    const HIGH: usize = 500;
    static LOW_RUN: AtomicUsize = AtomicUsize::new(0);
    static HIGH_RUN: AtomicUsize = AtomicUsize::new(0);
    in_fresh_process(
        "threads_without_a_place_have_the_turns_of_their_levels",
        || {
            let runtime = Options::new().workers(1).start().unwrap();
            let spawner = Builder::new().level(0).spawn_on(&runtime, || {
                without_more_addresses();
                for _ in 0..THREADS {
                    let low = Builder::new().level(LEVELS - 1).spawn(|| {
                        LOW_RUN.fetch_add(1, SeqCst);
                    });
                    drop(low);
                }
                let before = LOW_RUN.load(SeqCst);
                for _ in 0..HIGH {
                    drop(runtime::spawn(|| {
                        HIGH_RUN.fetch_add(1, SeqCst);
                    }));
                }
                while HIGH_RUN.load(SeqCst) < HIGH {
                    runtime::yield_now();
                }
                LOW_RUN.load(SeqCst) - before
            });
            let spawner = spawner.unwrap();
            until("those of the first level run", || spawner.is_finished());
            // 64 to 1, and the spawner has turns of the first level, too.
            let low = spawner.join().unwrap();
            assert!(
                low < HIGH / 5,
                "{low} of the last level for {HIGH} of the first"
            );
        },
    );
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

/// As where there may be 8,192 CPUs, of which the C library's type has 1,024.
#[test]
fn a_worker_keeps_to_a_cpu_where_sets_of_cpus_are_large() {
    in_fresh_process(
        "a_worker_keeps_to_a_cpu_where_sets_of_cpus_are_large",
        || {
            let workers = || {
                let runtime = Options::new().start().unwrap();
                (runtime.kernel_threads() / 2, runtime.run(cpus))
            };
            let before = workers();
            assert_eq!(before.1, 1);
            refuse(&Refusal {
                call: libc::SYS_sched_getaffinity,
                answer: Answer::Error(libc::EINVAL),
                when: When::Below(1024),
            })
            .unwrap();
            assert_eq!(workers(), before);
        },
    );
}

/// Returns the number of CPUs that the calling thread may run on.
fn cpus() -> u32 {
    let mut set = [0u64; 128];
    // SAFETY: a set of that size, which the kernel fills in.
    let result = unsafe {
        let size = size_of_val(&set);
        libc::sched_getaffinity(0, size, set.as_mut_ptr().cast())
    };
    assert_eq!(result, 0);
    set.iter().map(|word| word.count_ones()).sum()
}
