//! Every lock by every mechanism keeps others out, under the harshest schedule that its scope has;
//! and locks that do not are found out.
#![cfg(atomseq_sections)]

use atomseq::mutex::{
    BiasedFlag, Interlocked, Masked, OnCpu, RawBiased, RawMutex, RawSpin, Restarting, Rolling,
};
use atomseq_papers::emulation::{Call, Trap};
use atomseq_papers::reservation::{Bundled, PerLock, Unfenced};
use verify_stress::exclusion::controls::{Anywhere, Unprotected, VisitedUnfenced};
use verify_stress::exclusion::locks::{Figure1, OnePermit};
use verify_stress::exclusion::one_cpu::Pinned;
use verify_stress::exclusion::{Figures, handlers, machine, one_cpu};
use verify_support::processes::{Circumstances, end_in, in_fresh_process_under};
use verify_support::this_test;

/// The length of each run, in acquisitions: 100,000,000 are its full length.
const OPERATIONS: &str = "ATOMSEQ_EXCLUSION_OPERATIONS";

/// How many acquisitions, of which each takes so many times what most take.
fn operations(cost: u64) -> u64 {
    let asked = std::env::var(OPERATIONS).ok();
    let asked = asked.and_then(|number| number.parse::<u64>().ok());
    asked.unwrap_or(300_000) / cost
}

/// Runs in a process of its own, and prints what came of it.
fn trial(test: &str, run: impl FnOnce() -> Figures, check: impl FnOnce(Figures)) {
    let printed = in_fresh_process_under(test, Circumstances::default(), || {
        // Whoever sleeps for ever is found out by `watch`; the full length takes longer than tests
        // may otherwise, most of all where other programs run as well.
        let seconds = 600.max(operations(1) / 20_000);
        end_in(seconds as u32);
        let figures = run();
        println!("exclusion: {test}: {figures}");
        check(figures);
    });
    if let Some(printed) = printed {
        printed.print_from("exclusion: ");
    }
}

/// Tests: what runs, how dear an acquisition is.
macro_rules! excludes {
    ($($test:ident: $run:expr, $cost:literal;)*) => {$(
        #[test]
        fn $test() {
            let operations = operations($cost);
            trial(stringify!($test), || $run(operations), |figures| {
                assert_eq!(figures.wrong, 0);
                assert!(figures.by_threads >= operations);
                assert!(figures.disturbances > 0);
            });
        }
    )*};
}

excludes! {
    spin_lock_by_interlocked: machine::run::<RawSpin<Interlocked>>, 1;
    mutex_by_interlocked: machine::run::<RawMutex<Interlocked>>, 1;
    spin_lock_by_interlocked_on_one_cpu: one_cpu::run::<RawSpin<Interlocked>>, 1;
    mutex_by_interlocked_on_one_cpu: one_cpu::run::<RawMutex<Interlocked>>, 1;
    spin_lock_by_biased_flag: machine::run::<RawSpin<BiasedFlag>>, 1;
    mutex_by_biased_flag: machine::run::<RawBiased>, 1;
    spin_lock_by_on_cpu: one_cpu::run::<RawSpin<OnCpu>>, 1;
    mutex_by_on_cpu: one_cpu::run::<RawMutex<OnCpu>>, 1;
    mutex_by_biased_flag_on_one_cpu: one_cpu::run::<RawBiased>, 1;
    // A visit is a fence.
    mutex_by_on_cpu_with_visitors: machine::run::<RawMutex<OnCpu>>, 100;
    spin_lock_by_on_cpu_among_handlers: handlers::run_at_home::<RawSpin<OnCpu>>, 1;
    // Every other acquisition is a visit, and so are the handlers'.
    spin_lock_by_on_cpu_among_handlers_of_threads_that_move: handlers::run_moving::<RawSpin<OnCpu>>, 300;
    mutex_by_biased_flag_among_handlers: handlers::run::<RawBiased>, 1;
    spin_lock_by_restarting: handlers::run::<RawSpin<Restarting>>, 1;
    spin_lock_by_rolling: handlers::run::<RawSpin<Rolling>>, 1;
    spin_lock_by_masked: handlers::run::<RawSpin<Masked>>, 1;
    mutex_by_restarting: handlers::run::<RawMutex<Restarting>>, 1;
    mutex_by_rolling: handlers::run::<RawMutex<Rolling>>, 1;
    mutex_by_masked: handlers::run::<RawMutex<Masked>>, 1;
    semaphore_of_one_permit: machine::run::<OnePermit>, 1;
    semaphore_of_one_permit_on_one_cpu: one_cpu::run::<OnePermit>, 1;
    lamport_as_printed: machine::run::<Figure1>, 1;
    mutex_by_reservation_a: machine::run::<RawMutex<PerLock>>, 1;
    mutex_by_reservation_b: machine::run::<RawMutex<Bundled>>, 1;
    spin_lock_by_reservation_a: machine::run::<RawSpin<PerLock>>, 1;
    spin_lock_by_reservation_b: machine::run::<RawSpin<Bundled>>, 1;
    mutex_by_reservation_a_without_fences: one_cpu::run::<RawMutex<PerLock<Unfenced<Pinned>>>>, 1;
    mutex_by_reservation_b_without_fences: one_cpu::run::<RawMutex<Bundled<Unfenced<Pinned>>>>, 1;
    mutex_by_trap: machine::run::<RawMutex<Trap>>, 100;
    mutex_by_call: machine::run::<RawMutex<Call>>, 10;
    spin_lock_by_interlocked_among_handlers: handlers::run::<RawSpin<Interlocked>>, 1;
}

/// Runs until something is wrong: in a few thousand acquisitions, mostly; at most in three million.
fn until_wrong(run: fn(u64) -> Figures) -> Figures {
    let mut figures = Figures::default();
    for _ in 0..30 {
        figures = run(100_000);
        if figures.wrong > 0 {
            break;
        }
    }
    figures
}

/// Tests of which each must find something wrong.
macro_rules! does_not_exclude {
    ($($test:ident: $run:expr;)*) => {$(
        #[test]
        fn $test() {
            trial(stringify!($test), || until_wrong($run), |figures| {
                assert_ne!(figures.wrong, 0, "not found out");
            });
        }
    )*};
}

does_not_exclude! {
    no_protection_is_found_out_among_threads: machine::run::<RawSpin<Unprotected>>;
    no_protection_is_found_out_on_one_cpu: one_cpu::run::<RawSpin<Unprotected>>;
    no_protection_is_found_out_among_handlers: handlers::run::<RawSpin<Unprotected>>;
    no_protection_is_found_out_among_handlers_at_home: handlers::run_at_home::<RawSpin<Unprotected>>;
}

/// Runs a control that needs threads at the same time, where there are CPUs for that.
fn is_found_out(test: &str, run: fn(u64) -> Figures) {
    if verify_stress::torment::cpus().len() > 1 {
        trial(
            test,
            || until_wrong(run),
            |figures| {
                assert_ne!(figures.wrong, 0, "not found out");
            },
        );
    }
}

#[test]
fn same_thread_is_too_small_for_threads() {
    is_found_out(this_test!(), machine::run::<Anywhere<RawSpin<Restarting>>>);
}

#[test]
fn same_cpu_is_too_small_for_two_cpus() {
    is_found_out(
        this_test!(),
        machine::run::<Anywhere<RawSpin<PerLock<Unfenced<Pinned>>>>>,
    );
}

#[test]
fn a_visit_without_the_fence_is_found_out() {
    if atomseq::status().is_active() {
        is_found_out(this_test!(), machine::run::<RawSpin<VisitedUnfenced>>);
    }
}
