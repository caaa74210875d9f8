//! Each mechanism that threads may share excludes, with more threads than CPUs: when a lock is
//! acquired, tried, and acquired with a timeout.
#![cfg(all(target_os = "linux", not(atomseq_sanitized)))]

use std::sync::Arc;
use std::time::{Duration, Instant};

use atomseq::mutex::{BiasedFlag, Counted, Interlocked, OnCpu, RawMutex, RawSpin, TestAndSet};
use atomseq_stress::engine::watch::{self, End, Goal};
use atomseq_stress::engine::{Interruptions, Options};
use atomseq_stress::targets::exclusive::TimedLockRound;
use atomseq_stress::targets::section::Unprotected;
use lock_api::RawMutexTimed;
use verify_support::processes::in_fresh_process;
use verify_support::this_test;

/// How often the threads of a run acquire the lock, together.
const OPERATIONS: u64 = 200_000;

/// Runs one lock until the goal is reached, or an invariant is violated.
fn run<R>() -> End
where
    R: RawMutexTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
{
    let goal = Goal {
        operations: OPERATIONS,
        moves: 20,
        ..Goal::default()
    };
    watch::test(
        |_| Arc::new(TimedLockRound::new::<R>()),
        Interruptions::Sent,
        &Options::new(fastrand::u64(..)),
        goal,
    )
}

macro_rules! excludes {
    ($($test:ident: $($mechanism:ty),*;)*) => {$(
        #[test]
        fn $test() {
            in_fresh_process(this_test!(), || {
                $(
                    let name = <$mechanism>::NAME;
                    println!("spin lock by {name}: {}", run::<RawSpin<$mechanism>>().expect_held());
                    println!("mutex by {name}: {}", run::<RawMutex<$mechanism>>().expect_held());
                )*
            });
        }
    )*};
}

excludes! {
    interlocked: Interlocked;
    interlocked_and_counted: Counted<Interlocked>;
    on_cpu: OnCpu;
    biased_flag: BiasedFlag, Counted<BiasedFlag>;
}

/// Runs a lock that does not exclude, at most 50 times.
fn is_detected<R>(test: &str)
where
    R: RawMutexTimed<Duration = Duration, Instant = Instant> + Send + Sync + 'static,
{
    in_fresh_process(test, || {
        let detected = (0..50).any(|_| !run::<R>().has_held());
        assert!(detected, "not detected");
    });
}

#[test]
fn a_spin_lock_that_does_not_exclude_is_detected() {
    is_detected::<RawSpin<Unprotected>>(this_test!());
}

#[test]
fn a_mutex_that_does_not_exclude_is_detected() {
    is_detected::<RawMutex<Unprotected>>(this_test!());
}
