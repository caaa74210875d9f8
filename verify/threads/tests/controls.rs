//! What the runtime promises, with the protection that it needs and without it. Without it, the
//! thread that waits never runs, however fast the machine is; so each wait for it to run has a
//! generous limit, and each wait for it not to run may be short.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use atomseq_threads::runtime::{self, Builder, Options, Protection};

/// A test that waits so long has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// How long a thread that cannot run is watched.
const SHORT: Duration = Duration::from_millis(200);

/// Returns whether the flag is set: as soon as it is, or after the limit.
fn is_set(flag: &AtomicBool, limit: Duration) -> bool {
    let begin = Instant::now();
    while !flag.load(SeqCst) && begin.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
    flag.load(SeqCst)
}

fn with_and_without(protection: Protection, runs: impl Fn(Options, Duration) -> bool) {
    assert!(runs(Options::new().workers(1), LIMIT), "with it");
    let without = Options::new().workers(1).without(protection);
    assert!(!runs(without, SHORT), "without {protection:?}");
}

#[test]
fn without_preemption_a_closure_that_never_yields_freezes_the_others() {
    with_and_without(Protection::Preemption, |options, limit| {
        let runtime = options.start().unwrap();
        let (has_run, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let has_begun = AtomicBool::new(false);
        runtime.scope(|scope| {
            scope.spawn(|| {
                has_begun.store(true, SeqCst);
                while !is_over.load(SeqCst) {
                    core::hint::spin_loop();
                }
            });
            assert!(is_set(&has_begun, LIMIT));
            scope.spawn(|| has_run.store(true, SeqCst));
            let runs = is_set(&has_run, limit);
            is_over.store(true, SeqCst);
            runs
        })
    });
}

#[test]
fn without_hand_off_a_closure_that_blocks_freezes_the_others() {
    with_and_without(Protection::HandOff, |options, limit| {
        let runtime = options.start().unwrap();
        let has_run = Arc::new(AtomicBool::new(false));
        let (begin, begun) = mpsc::channel();
        let (send, receive) = mpsc::channel::<()>();
        let blocks = runtime.spawn(move || {
            begin.send(()).unwrap();
            receive.recv().unwrap();
        });
        begun.recv_timeout(LIMIT).unwrap();
        let runs = Arc::clone(&has_run);
        let other = runtime.spawn(move || runs.store(true, SeqCst));
        let runs = is_set(&has_run, limit);
        send.send(()).unwrap();
        blocks.join().unwrap();
        other.join().unwrap();
        runs
    });
}

#[test]
fn without_stealing_an_idle_worker_leaves_the_others_work() {
    with_and_without(Protection::Stealing, |options, limit| {
        // Nothing else moves the thread.
        let options = options.workers(2).without(Protection::Preemption);
        let runtime = options.start().unwrap();
        let has_run = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&has_run);
        let spawner = runtime.spawn(move || {
            let child = runtime::spawn(move || runs.store(true, SeqCst));
            let begin = Instant::now();
            while !has_run.load(SeqCst) && begin.elapsed() < limit {
                core::hint::spin_loop();
            }
            let runs = has_run.load(SeqCst);
            child.join().unwrap();
            runs
        });
        spawner.join().unwrap()
    });
}

#[test]
fn without_turns_the_last_level_starves() {
    with_and_without(Protection::Turns, |options, limit| {
        // The first level's thread must not lose its role otherwise.
        let options = options.without(Protection::HandOff);
        let runtime = options.without(Protection::Preemption).start().unwrap();
        let (has_run, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let has_begun = AtomicBool::new(false);
        runtime.scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    has_begun.store(true, SeqCst);
                    runtime::yield_now();
                }
            });
            assert!(is_set(&has_begun, LIMIT));
            let last = Builder::new().level(7);
            last.spawn_scoped(scope, || has_run.store(true, SeqCst))
                .unwrap();
            let runs = is_set(&has_run, limit);
            is_over.store(true, SeqCst);
            runs
        })
    });
}
