//! One at a time, by every mechanism that threads may share, under more threads than CPUs.
#![cfg(not(atomseq_sanitized))]

use atomseq::mutex::{BiasedFlag, Counted, Interlocked, OnCpu, RawMutex, RawSpin, TestAndSet};
use verify_mutex::careless::LooksThenSets;
use verify_mutex::exclusion::{between_threads, between_threads_in_time};

/// How often each thread locks.
const EACH: u64 = 20_000;

/// Every lock made of it.
fn excludes<M: TestAndSet + Sync>() {
    for (lock, outcome) in [
        ("RawSpin", between_threads::<RawSpin<M>>(EACH)),
        ("RawMutex", between_threads::<RawMutex<M>>(EACH)),
        (
            "RawSpin in time",
            between_threads_in_time::<RawSpin<M>>(EACH),
        ),
        (
            "RawMutex in time",
            between_threads_in_time::<RawMutex<M>>(EACH),
        ),
    ] {
        if let Err(broken) = outcome {
            panic!("{lock}, {}: {broken}", M::NAME);
        }
    }
}

#[test]
fn interlocked() {
    excludes::<Interlocked>();
}

#[test]
fn interlocked_and_counted() {
    excludes::<Counted<Interlocked>>();
}

#[test]
fn on_cpu() {
    excludes::<OnCpu>();
}

#[test]
fn biased_flag() {
    excludes::<BiasedFlag>();
    excludes::<Counted<BiasedFlag>>();
}

#[test]
fn a_mechanism_that_does_not_exclude_is_found_out() {
    let broken = |outcome: fn(u64) -> Result<(), String>| {
        let found = (0..50).find_map(|_| outcome(EACH).err());
        println!("{}", found.expect("50 trials without a fault"));
    };
    broken(between_threads::<RawSpin<LooksThenSets>>);
    broken(between_threads::<RawMutex<LooksThenSets>>);
}
