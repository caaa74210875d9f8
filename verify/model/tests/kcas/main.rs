//! k-CAS under shuttle: threads that exchange, help and read, and whose descriptors are used again as soon as they may be, in a
//! great many orders of steps. The library's own sources, over atomics that shuttle steps. Memory is sequentially
//! consistent here.
//!
//! Protections are taken away one by one, by a change of those sources (`mutations.rs`), and that has to be found out. What
//! chance would hardly come upon, threads that come late by a whole operation, is a model with a script (`scripts.rs`).

mod models;
mod mutations;
mod scripts;

/// What the sources of the library are built on.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

    /// How often a thread looks again before it helps.
    pub const SPINS: usize = 1;

    /// Looks again at once.
    pub fn spin_loop() {}
}

/// Nobody is at home in a block here: `tests/kcas_loom` has models of that.
mod platform {
    pub fn has_ended(_name: u64) -> bool {
        false
    }
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

/// k-CAS, as it is or with something missing.
trait Library: 'static {
    const NAME: &'static str;

    /// Begins an execution, with so many blocks of descriptors.
    fn anew(blocks: usize);

    /// Each word, what it should hold, what it shall hold.
    fn exchange<const N: usize>(parts: [(&sync::AtomicU64, u64, u64); N]) -> bool;

    fn load(word: &sync::AtomicU64) -> u64;

    /// How many descriptors are not free.
    fn bound() -> usize;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            const NAME: &'static str = module_path!();

            fn anew(count: usize) {
                blocks::anew(count);
            }

            fn exchange<const N: usize>(parts: [(&crate::sync::AtomicU64, u64, u64); N]) -> bool {
                let mut parts = parts.map(|(word, old, new)| kcas::Part { word, old, new });
                // SAFETY: a model's words live as long as its threads, and change in no other way.
                unsafe { kcas::exchange(&mut parts) }
            }

            fn load(word: &crate::sync::AtomicU64) -> u64 {
                kcas::load(word)
            }

            fn bound() -> usize {
                blocks::bound()
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/kcas.rs"));

/// Runs a model in so many orders, half of them drawn at random, half with few changes of thread; returns in how many, and what
/// went wrong in one of them.
fn explore(most: usize, model: fn()) -> (usize, Option<String>) {
    explore_by(
        vec![
            Box::new(RandomScheduler::new_from_seed(1, most / 2)),
            Box::new(PctScheduler::new_from_seed(1, 4, most / 2)),
        ],
        model,
    )
}

fn explore_by(schedulers: Vec<Box<dyn Scheduler + Send>>, model: fn()) -> (usize, Option<String>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let mut wrong = None;
    for scheduler in schedulers {
        let counting = Arc::clone(&runs);
        let model = move || {
            counting.fetch_add(1, Ordering::Relaxed);
            model();
        };
        let mut config = shuttle::Config::new();
        config.silence_warnings = true;
        config.failure_persistence = shuttle::FailurePersistence::None;
        // One who looks again and again at what nobody will change is found out by that.
        config.max_steps = shuttle::MaxSteps::FailAfter(5_000);
        // Without sequence numbers, helpers help themselves, deeper and deeper until there are so many steps.
        config.stack_size = 16 << 20;
        let runner = Runner::new(scheduler, config);
        let explored = catch_unwind(AssertUnwindSafe(|| runner.run(model)));
        let what = |panic: Box<dyn std::any::Any + Send>| match panic.downcast::<String>() {
            Ok(sentence) => *sentence,
            Err(panic) => (*panic.downcast::<&str>().expect("a sentence")).to_owned(),
        };
        wrong = wrong.or(explored.err().map(what));
        if wrong.is_some() {
            break;
        }
    }
    (runs.load(Ordering::Relaxed), wrong)
}

fn holds(name: &str, model: fn()) {
    // Many more by hand, for changes to k-CAS.
    let asked = std::env::var("ATOMSEQ_KCAS_ORDERS").ok();
    let most = asked.map_or(200, |asked| asked.parse().expect("a number of orders"));
    let (runs, wrong) = explore(most, model);
    assert_eq!(wrong, None, "{name}, in run {runs}");
    println!("model: k-CAS: {name}: holds in {runs} orders");
    assert_eq!(runs, most / 2 * 2);
}

/// One of the models notices what is missing; each gets a few orders first, and then more.
fn is_found_out<L: Library>() {
    let mut runs = 0;
    let mut is_found = |name: &str, (more, wrong): (usize, Option<String>)| {
        runs += more;
        let Some(wrong) = wrong else {
            return false;
        };
        let line = wrong.lines().next().unwrap_or_default();
        println!(
            "model: {}: found out by {name}, in order {runs}: {line}",
            L::NAME
        );
        true
    };
    for most in [20, 200] {
        for (name, model) in models::all::<L>() {
            if is_found(name, explore(most, model)) {
                return;
            }
        }
    }
    for (name, script, model) in scripts::all::<L>() {
        if is_found(name, explore_by(vec![Box::new(script)], model)) {
            return;
        }
    }
    panic!("{}: nobody noticed in {runs} orders", L::NAME);
}

#[test]
fn nothing_is_lost_doubled_or_read_by_halves() {
    for (name, model) in models::all::<as_it_is::This>() {
        holds(name, model);
    }
}

#[test]
fn nobody_who_comes_late_does_harm() {
    for (name, script, model) in scripts::all::<as_it_is::This>() {
        let orders = script.orders();
        let (runs, wrong) = explore_by(vec![Box::new(script)], model);
        assert_eq!(wrong, None, "{name}, in run {runs}");
        println!("model: k-CAS: {name}: holds in {runs} orders");
        assert_eq!(runs, orders);
    }
}

macro_rules! controls {
    ($($name:ident)*) => {
        /// Each mutation has a test.
        const CONTROLS: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                is_found_out::<self::$name::This>();
            }
        )*
    };
}

controls! {
    installed_is_not_marked
    released_is_not_marked
    decided_too_early
    the_last_word_is_left_out
    undecided_is_overridden
    values_are_not_compared
    stale_references_are_believed
    descriptors_are_taken_twice
    sequence_numbers_stay
    helpers_are_not_counted
    owners_are_not_waited_for
}

#[test]
fn every_mutation_has_a_test() {
    let names = mutations::MUTATIONS.iter().map(|(name, ..)| *name);
    assert_eq!(names.collect::<Vec<_>>(), CONTROLS);
}
