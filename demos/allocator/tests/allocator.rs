//! Nothing in `percpu` and `type_stable` calls the global allocator, the C library's allocator or a
//! lock of the standard library once a structure is built. So an allocator can be built on them,
//! and this test binary runs on the demo's.
//!
//! [`watch`] detects the calls. It identifies the threads inside atomseq by their `pthread_t`, so
//! it needs no thread-local. A thread-local with a destructor shows as a call of the C library's
//! `calloc`, where the destructor is registered. A run does not show an uncontended lock of the
//! standard library; [`sources`] searches the source text for those.

#![cfg(unix)]

#[path = "allocator/sources.rs"]
mod sources;
#[path = "allocator/structures.rs"]
mod structures;
#[path = "allocator/watch.rs"]
mod watch;

use std::process::{Command, Output};

use atomseq::percpu::Pool;
use demo_allocator::pools;
use structures::use_structures;
use watch::{Watched, watched};

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// In the environment of a child: the part that it plays.
const PART: &str = "ATOMSEQ_TEST_PART";

fn plays(part: &str) -> bool {
    std::env::var_os(PART).is_some_and(|plays| plays == part)
}

/// Runs one test of this binary in a process of its own.
fn child(test: &str, part: &str, environment: &[(&str, &str)]) -> Output {
    let exe = std::env::current_exe().unwrap();
    Command::new(exe)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// The settings that select the C library's registration, atomseq's own, and the slow path.
const SETTINGS: [(&str, &str); 3] = [
    ("ATOMSEQ_DISABLE_RSEQ", "0"),
    ("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),
    ("ATOMSEQ_DISABLE_RSEQ", "1"),
];

#[test]
fn no_operation_allocates() {
    if plays("use") {
        return use_structures();
    }
    for setting in SETTINGS {
        let output = child("no_operation_allocates", "use", &[setting]);
        assert!(output.status.success(), "{setting:?}: {output:?}");
    }
}

/// The same for the very first call, in a process that has not started atomseq up. The allocator's
/// pools would start it up, so this process uses the system's allocator.
#[test]
fn start_up_does_not_allocate() {
    if plays("start") {
        assert!(pools::totals().is_none());
        watch::watched_for_the_global_allocator(|| {
            atomseq::status();
        });
        return use_structures();
    }
    let system = (pools::SWITCH.to_str().unwrap(), "system");
    for setting in SETTINGS {
        let output = child("start_up_does_not_allocate", "start", &[setting, system]);
        assert!(output.status.success(), "{setting:?}: {output:?}");
    }
}

/// The negative controls: each of these must be detected.
#[test]
fn the_watch_detects_allocations() {
    let parts: Vec<(&str, fn())> = vec![
        ("alloc", || drop(std::hint::black_box(Box::new([1u8; 100])))),
        ("alloc_zeroed", || {
            drop(std::hint::black_box(vec![0u8; 100]))
        }),
        ("alloc_large", || {
            drop(std::hint::black_box(vec![1u8; 100_000]))
        }),
        ("source", || {
            // A source may allocate, but that is detected too.
            let pool = Pool::with_capacity_per_cpu(4, || Box::new(1));
            std::hint::black_box(pool.get());
        }),
        #[cfg(all(atomseq_sections, target_env = "gnu"))]
        ("thread-local", set_up_a_thread_local),
    ];
    for (part, allocate) in &parts {
        if plays(part) {
            return watched(allocate);
        }
    }
    for (part, _) in parts {
        let output = child("the_watch_detects_allocations", part, &[]);
        let seen = String::from_utf8_lossy(&output.stderr).contains(watch::SEEN);
        assert!(!output.status.success() && seen, "{part}: {output:?}");
    }
}

/// Registers a destructor, for which the C library allocates.
#[cfg(all(atomseq_sections, target_env = "gnu"))]
fn set_up_a_thread_local() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            std::hint::black_box(());
        }
    }
    thread_local! {
        static LAZY: std::cell::Cell<Option<Loud>> = const { std::cell::Cell::new(None) };
    }
    LAZY.set(Some(Loud));
}

/// All kinds of allocation on several threads, with blocks that one allocates and another frees.
#[test]
fn the_allocator_allocates() {
    let before = pools::totals().expect("this test runs on the pools");
    std::thread::scope(|scope| {
        let (give, take) = std::sync::mpsc::channel::<Vec<u8>>();
        scope.spawn(move || {
            for size in 0..3000usize {
                let mut bytes = vec![size as u8; size];
                bytes.reserve_exact(size % 7 * 100);
                bytes.push(1);
                bytes.shrink_to_fit();
                give.send(bytes).unwrap();
            }
        });
        scope.spawn(move || {
            for (size, bytes) in take.into_iter().enumerate() {
                assert_eq!(bytes.len(), size + 1);
                assert!(bytes[..size].iter().all(|byte| *byte == size as u8));
                let zeroes = vec![0u64; size];
                assert!(zeroes.iter().all(|word| *word == 0));
            }
        });
        for _ in 0..50 {
            scope.spawn(|| {
                thread_local! {
                    /// Allocates and frees while its thread exits.
                    static LAST: Last = const { Last };
                }
                struct Last;
                impl Drop for Last {
                    fn drop(&mut self) {
                        drop(std::hint::black_box(vec![vec![1u8; 40]; 10]));
                    }
                }
                LAST.with(|last| _ = std::hint::black_box(last));
                #[repr(align(64))]
                struct Aligned([u8; 64]);
                let aligned: Vec<Box<Aligned>> =
                    (0..100).map(|byte| Box::new(Aligned([byte; 64]))).collect();
                for (byte, aligned) in aligned.iter().enumerate() {
                    assert_eq!(&raw const **aligned as usize % 64, 0);
                    assert!(aligned.0.iter().all(|found| usize::from(*found) == byte));
                }
            });
        }
    });
    let after = pools::totals().unwrap();
    assert!(after.small > before.small + 3000);
    assert!(after.large >= before.large + 5000);
    let from_caches = (after.small - before.small) - (after.from_shelves - before.from_shelves);
    assert!(
        from_caches > after.from_shelves - before.from_shelves,
        "{after:?}"
    );
}

/// Only with sections: elsewhere a fork does not wait for closed gates.
#[cfg(atomseq_sections)]
#[test]
fn a_forked_child_allocates() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Relaxed: no data depends on it.
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let blocks: Vec<Box<[u8; 48]>> = (0..2000).map(|_| Box::new([1; 48])).collect();
                    drop(std::hint::black_box(blocks));
                }
            });
        }
        let ended_well = (0..50).all(|_| {
            // SAFETY: the child only allocates, which this allocator permits, and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let blocks: Vec<Box<[u8; 48]>> = (0..5000).map(|_| Box::new([2; 48])).collect();
                let whole = blocks.iter().all(|block| **block == [2; 48]);
                // SAFETY: exits the child without the parent's exit handlers.
                unsafe { libc::_exit(if whole { 0 } else { 1 }) };
            }
            end_of(child) == Some(0)
        });
        // Before the assertion, so that the threads exit in any case.
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(ended_well, "a child hangs, or failed");
    });
}

/// Returns the status of a child, or kills it after 20 seconds: it may wait for a thread that does
/// not exist in it.
#[cfg(atomseq_sections)]
fn end_of(child: libc::pid_t) -> Option<i32> {
    let mut status = -1;
    for _ in 0..20_000 {
        // SAFETY: asks for the status of a child of this process.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: kills and reaps that child, which has not been reaped.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    None
}
