//! Per-thread statics from the first instruction of a thread to its last, and in a loaded object,
//! with handlers that constantly use them.
#![cfg(atomseq_sections)]

use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use atomseq::local::{Counter, per_thread};
use atomseq::signal::{self, Event};
use verify_local::Loaded;
use verify_support::fire::under_fire;
use verify_support::processes::in_fresh_process;
use verify_support::signals::change_mask;
use verify_support::this_test;

per_thread! {
    static HITS: Counter = Counter::new();
}

static DELIVERED: AtomicU64 = AtomicU64::new(0);
static COLLECTED: AtomicU64 = AtomicU64::new(0);

fn hit(_event: &mut Event<'_>) {
    HITS.with(|hits| hits.increment());
    DELIVERED.fetch_add(1, Ordering::Relaxed);
}

/// Collects its thread's hits when the thread's destructors run.
struct Collector;

impl Drop for Collector {
    fn drop(&mut self) {
        // From here on, no signal is delivered to this thread.
        change_mask(libc::SIG_BLOCK, &[libc::SIGUSR1]);
        COLLECTED.fetch_add(HITS.with(|hits| hits.take()), Ordering::Relaxed);
    }
}

thread_local! {
    static COLLECTOR: Collector = const { Collector };
}

#[test]
fn handlers_find_them_while_threads_begin_and_end() {
    in_fresh_process(this_test!(), || {
        // SAFETY: the handler adds to two counters.
        unsafe { signal::install(libc::SIGUSR1, hit).unwrap() };
        const THREADS: usize = 200;
        for _ in 0..THREADS {
            let thread = std::thread::spawn(|| {
                COLLECTOR.with(|_| ());
                while HITS.with(|hits| hits.sum()) < 3 {
                    std::thread::yield_now();
                }
            });
            // From before its first instruction until after its last.
            let mut left = 5;
            while left > 0 {
                // SAFETY: it is not joined yet.
                unsafe { libc::pthread_kill(thread.as_pthread_t(), libc::SIGUSR1) };
                std::thread::yield_now();
                left -= u32::from(thread.is_finished());
            }
            thread.join().unwrap();
        }
        let delivered = DELIVERED.load(Ordering::Relaxed);
        eprintln!("{delivered} deliveries to {THREADS} threads");
        assert!(delivered >= 3 * THREADS as u64);
        // None was lost: the counts made by a thread's handlers before its body began are included.
        assert_eq!(COLLECTED.load(Ordering::Relaxed), delivered);
    });
}

/// The loaded object's functions, for a handler.
static LOADED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn loaded(index: usize) -> extern "C" fn(u64) -> u64 {
    let address = LOADED[index].load(Ordering::Relaxed) as *const ();
    // SAFETY: the test has stored functions of this type.
    unsafe { std::mem::transmute(address) }
}

#[test]
fn a_loaded_object_shares_with_handlers_of_the_executable() {
    in_fresh_process(this_test!(), || {
        let object = Loaded::open();
        for (index, name) in ["loaded_hit", "loaded_exchange"].iter().enumerate() {
            LOADED[index].store(object.function(name) as usize, Ordering::Relaxed);
        }
        static PUT: AtomicU64 = AtomicU64::new(0);
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        fn handler() {
            loaded(0)(1000);
            exchange(3);
        }
        fn exchange(number: u64) {
            // A handler that runs in between may leave no room: then nothing was put in.
            let before = loaded(1)(number);
            if before != u64::MAX {
                PUT.fetch_add(2 * number, Ordering::Relaxed);
                TAKEN.fetch_add(before, Ordering::Relaxed);
            }
        }
        let mut rounds = 0;
        let fired = under_fire(5_000, handler, || {
            loaded(0)(1);
            exchange(7);
            rounds += 1;
        });
        eprintln!("{fired:?} in {rounds} rounds");
        assert!(fired.in_sequences > 20, "{fired:?}");
        assert_eq!(loaded(0)(0), rounds + 1000 * fired.deliveries as u64);
        // At most four elements are left, each of two sevens at most.
        let left = PUT.load(Ordering::Relaxed) - TAKEN.load(Ordering::Relaxed);
        assert!(left <= 4 * 14, "{left} are left");
    });
}
