//! Each lock by each mechanism excludes, under the harshest schedule that its scope allows; and
//! locks that do not exclude are detected.
#![cfg(atomseq_sections)]

use atomseq::mutex::{
    BiasedFlag, Interlocked, Masked, OnCpu, RawBiased, RawMutex, RawSpin, Restarting, Rolling,
};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundled, PerLock, Unfenced};
use atomseq_stress::engine::watch::End;
use verify_stress::controls::{Anywhere, Unprotected, VisitedUnfenced};
use verify_stress::exclusion::{
    Figure1, OnePermit, Pinned, among_handlers, among_handlers_at_home, among_handlers_moving,
    cpus, on_machine, on_one_cpu,
};
use verify_support::processes::{Circumstances, end_in, in_fresh_process_under};
use verify_support::{number_from_env, this_test};

/// The length of each run, in acquisitions: 100,000,000 are its full length.
const OPERATIONS: &str = "ATOMSEQ_EXCLUSION_OPERATIONS";

/// Returns the number of acquisitions, each of which takes `cost` times what most take.
fn operations(cost: u64) -> u64 {
    number_from_env(OPERATIONS, 300_000) / cost
}

/// Runs in a process of its own, and prints the outcome.
fn trial(test: &str, run: impl FnOnce() -> End, check: impl FnOnce(End)) {
    let printed = in_fresh_process_under(test, Circumstances::default(), || {
        // The engine detects a hang. The full length takes longer than tests may otherwise, in
        // particular on a busy machine.
        let seconds = 900.max(operations(1) / 20_000);
        end_in(seconds as u32);
        let end = run();
        match &end {
            End::Held(figures) => println!("exclusion: {test}: {figures}"),
            End::Violated {
                violation, figures, ..
            } => println!("exclusion: {test}: {violation}, after {figures}"),
            End::Hung { place, .. } => println!("exclusion: {test}: no progress {place}"),
        }
        check(end);
    });
    if let Some(printed) = printed {
        printed.print_from("exclusion: ");
    }
}

/// Tests: what runs, and the cost of an acquisition.
macro_rules! excludes {
    ($($test:ident: $run:expr, $cost:literal;)*) => {$(
        #[test]
        fn $test() {
            let operations = operations($cost);
            trial(this_test!(), || $run(operations), |end| {
                let figures = end.expect_held();
                assert!(figures.worked >= operations);
                assert!(figures.moves + figures.fences + figures.signals > 0);
            });
        }
    )*};
}

excludes! {
    spin_lock_by_interlocked: on_machine::<RawSpin<Interlocked>>, 1;
    mutex_by_interlocked: on_machine::<RawMutex<Interlocked>>, 1;
    spin_lock_by_interlocked_on_one_cpu: on_one_cpu::<RawSpin<Interlocked>>, 1;
    mutex_by_interlocked_on_one_cpu: on_one_cpu::<RawMutex<Interlocked>>, 1;
    spin_lock_by_biased_flag: on_machine::<RawSpin<BiasedFlag>>, 1;
    mutex_by_biased_flag: on_machine::<RawBiased>, 1;
    spin_lock_by_on_cpu: on_one_cpu::<RawSpin<OnCpu>>, 1;
    mutex_by_on_cpu: on_one_cpu::<RawMutex<OnCpu>>, 1;
    mutex_by_biased_flag_on_one_cpu: on_one_cpu::<RawBiased>, 1;
    // A visit is a fence.
    mutex_by_on_cpu_with_visitors: on_machine::<RawMutex<OnCpu>>, 100;
    spin_lock_by_on_cpu_among_handlers: among_handlers_at_home::<RawSpin<OnCpu>>, 1;
    // Half of the acquisitions are visits, also those of handlers.
    spin_lock_by_on_cpu_among_handlers_of_threads_that_move: among_handlers_moving::<RawSpin<OnCpu>>, 300;
    mutex_by_biased_flag_among_handlers: among_handlers::<RawBiased>, 1;
    spin_lock_by_restarting: among_handlers::<RawSpin<Restarting>>, 1;
    spin_lock_by_rolling: among_handlers::<RawSpin<Rolling>>, 1;
    spin_lock_by_masked: among_handlers::<RawSpin<Masked>>, 1;
    mutex_by_restarting: among_handlers::<RawMutex<Restarting>>, 1;
    mutex_by_rolling: among_handlers::<RawMutex<Rolling>>, 1;
    mutex_by_masked: among_handlers::<RawMutex<Masked>>, 1;
    semaphore_of_one_permit: on_machine::<OnePermit>, 1;
    semaphore_of_one_permit_on_one_cpu: on_one_cpu::<OnePermit>, 1;
    lamport_as_printed: on_machine::<Figure1>, 1;
    mutex_by_reservation_a: on_machine::<RawMutex<PerLock>>, 1;
    mutex_by_reservation_b: on_machine::<RawMutex<Bundled>>, 1;
    spin_lock_by_reservation_a: on_machine::<RawSpin<PerLock>>, 1;
    spin_lock_by_reservation_b: on_machine::<RawSpin<Bundled>>, 1;
    mutex_by_reservation_a_without_fences: on_one_cpu::<RawMutex<PerLock<Unfenced<Pinned>>>>, 1;
    mutex_by_reservation_b_without_fences: on_one_cpu::<RawMutex<Bundled<Unfenced<Pinned>>>>, 1;
    mutex_by_trap: on_machine::<RawMutex<Trap>>, 100;
    mutex_by_call: on_machine::<RawMutex<Call>>, 10;
    spin_lock_by_interlocked_among_handlers: among_handlers::<RawSpin<Interlocked>>, 1;
}

/// Runs until a violation or a hang, mostly after a few thousand acquisitions; at most three
/// million.
fn until_detected(run: fn(u64) -> End) -> End {
    run(3_000_000)
}

/// Tests each of which must detect a fault.
macro_rules! does_not_exclude {
    ($($test:ident: $run:expr;)*) => {$(
        #[test]
        fn $test() {
            trial(this_test!(), || until_detected($run), |end| {
                assert!(!end.has_held(), "not detected");
            });
        }
    )*};
}

does_not_exclude! {
    no_protection_is_detected_among_threads: on_machine::<RawSpin<Unprotected>>;
    no_protection_is_detected_on_one_cpu: on_one_cpu::<RawSpin<Unprotected>>;
    no_protection_is_detected_among_handlers: among_handlers::<RawSpin<Unprotected>>;
    no_protection_is_detected_among_handlers_at_home: among_handlers_at_home::<RawSpin<Unprotected>>;
}

/// Runs a control that needs two CPUs, if there are two.
fn is_detected(test: &str, run: fn(u64) -> End) {
    if cpus().len() > 1 {
        let check = |end: End| assert!(!end.has_held(), "not detected");
        trial(test, || until_detected(run), check);
    }
}

#[test]
fn same_thread_is_too_small_for_threads() {
    is_detected(this_test!(), on_machine::<Anywhere<RawSpin<Restarting>>>);
}

#[test]
fn same_cpu_is_too_small_for_two_cpus() {
    is_detected(
        this_test!(),
        on_machine::<Anywhere<RawSpin<PerLock<Unfenced<Pinned>>>>>,
    );
}

#[test]
fn a_visit_without_the_fence_is_detected() {
    if atomseq::status().is_active() {
        is_detected(this_test!(), on_machine::<RawSpin<VisitedUnfenced>>);
    }
}
