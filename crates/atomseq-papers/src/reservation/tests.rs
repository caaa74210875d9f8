//! Properties on one thread and between a few. `verify/papers` tests exclusion under load, and
//! `verify/model` every interleaving.

use std::sync::Barrier;
use std::thread;

use super::*;

struct Pinned;

// SAFETY: the tests below use it on one thread only, and the bundle belongs to this group.
unsafe impl OneCpu for Pinned {
    fn bundle() -> &'static Bundle {
        static BUNDLE: Bundle = Bundle::new();
        &BUNDLE
    }
}

fn sets_and_clears<M: TestAndSet>() {
    let (flag, other) = (M::CLEAR, M::CLEAR);
    for _ in 0..3 {
        assert!(!flag.is_set());
        assert!(flag.test_and_set(), "{}", M::NAME);
        assert!(flag.is_set());
        assert!(!flag.test_and_set());
        assert!(other.test_and_set(), "another variable");
        // SAFETY: this thread set both.
        unsafe {
            flag.clear();
            other.clear_then_look();
        }
    }
}

#[test]
fn each_sets_and_clears() {
    sets_and_clears::<PerLock>();
    sets_and_clears::<Bundled>();
    sets_and_clears::<PerLock<Unfenced<Pinned>>>();
    sets_and_clears::<Bundled<Unfenced<Pinned>>>();
}

#[test]
fn a_variable_is_as_large_as_b91_complains() {
    assert!(size_of::<PerLock>() > THREADS);
    assert_eq!(size_of::<Bundled>(), 4);
}

#[test]
fn another_thread_may_clear_what_this_one_set() {
    let flag = PerLock::<Fenced>::CLEAR;
    assert!(flag.test_and_set());
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(!flag.test_and_set());
            // SAFETY: the flag was handed over by the thread that set it.
            unsafe { flag.clear() };
            assert!(flag.test_and_set());
        });
    });
    assert!(!flag.test_and_set());
}

#[test]
fn one_enters_at_a_time() {
    static LAMPORT: Lamport = Lamport::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    LAMPORT.enter();
                    let count = COUNT.load(Ordering::Relaxed);
                    COUNT.store(count + 1, Ordering::Relaxed);
                    // SAFETY: this thread entered above.
                    unsafe { LAMPORT.leave() };
                }
            });
        }
    });
    assert_eq!(COUNT.load(Ordering::Relaxed), 40_000);
}

/// A handler that interrupts a test-and-set does not enter Lamport's algorithm, where it would be
/// the same thread, and finds the variable set.
#[test]
fn a_handler_in_the_middle_of_one_sets_nothing() {
    let (flag, bundled) = (PerLock::<Fenced>::CLEAR, Bundled::<Fenced>::CLEAR);
    for _ in 0..2 {
        let inside = threads::with_number(|_| (flag.test_and_set(), bundled.test_and_set()));
        assert_eq!(inside, Some((false, false)));
        assert!(!flag.is_set() && !bundled.is_set());
    }
    assert!(
        flag.test_and_set() && bundled.test_and_set(),
        "and only there"
    );
}

/// All numbers belong to the process, so a single test counts them, with few threads compared to
/// `THREADS`.
#[test]
fn many_threads_one_after_the_other_take_no_more_numbers_than_few() {
    let flag = PerLock::<Fenced>::CLEAR;
    let together = Barrier::new(4);
    for _ in 0..THREADS {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    together.wait();
                    if flag.test_and_set() {
                        // SAFETY: this thread set it.
                        unsafe { flag.clear() };
                    }
                });
            }
        });
    }
}
