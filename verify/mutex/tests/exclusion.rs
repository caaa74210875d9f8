//! Each mechanism that threads may share excludes, with more threads than CPUs: when a lock is
//! acquired, tried, and acquired with a timeout.
#![cfg(all(target_os = "linux", not(atomseq_sanitized)))]

use std::sync::Arc;

use atomseq::mutex::{BiasedFlag, Counted, Interlocked, OnCpu, RawMutex, RawSpin, TestAndSet};
use atomseq_stress::engine::watch::{self, End, Goal};
use atomseq_stress::engine::{Interruptions, Options};
use atomseq_stress::targets::exclusive::TimedLockRound;
use atomseq_stress::targets::section::Unprotected;
use verify_signals::fresh::in_fresh_process;
use verify_signals::this_test;

/// How often the threads of a run acquire the lock, together.
const OPERATIONS: u64 = 200_000;

/// Runs a spin lock, then a mutex by this mechanism, until an invariant is violated.
fn run<M: TestAndSet + Send + Sync + 'static>() -> End {
    let goal = Goal {
        operations: OPERATIONS,
        moves: 20,
        ..Goal::default()
    };
    let options = Options::new(fastrand::u64(..));
    let spin = watch::test(
        |_| Arc::new(TimedLockRound::new::<RawSpin<M>>()),
        Interruptions::Sent,
        &options,
        goal,
    );
    if !spin.has_held() {
        return spin;
    }
    watch::test(
        |_| Arc::new(TimedLockRound::new::<RawMutex<M>>()),
        Interruptions::Sent,
        &options,
        goal,
    )
}

macro_rules! excludes {
    ($($test:ident: $($mechanism:ty),*;)*) => {$(
        #[test]
        fn $test() {
            in_fresh_process(this_test!(), || {
                $(println!("{}: {}", <$mechanism>::NAME, run::<$mechanism>().expect_held());)*
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

#[test]
fn a_mechanism_that_does_not_exclude_is_detected() {
    in_fresh_process(this_test!(), || {
        // In at most 50 runs.
        let detected = (0..50).any(|_| !run::<Unprotected>().has_held());
        assert!(detected, "not detected");
    });
}
