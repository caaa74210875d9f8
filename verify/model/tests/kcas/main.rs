//! k-CAS under shuttle: threads exchange, help and read, and reuse descriptors as soon as possible,
//! in many orders of steps. Runs the library's own sources over atomics that shuttle steps. Memory
//! is sequentially consistent here.
//!
//! Protections are removed one by one, by mutations of those sources (`mutations/`), and each must
//! be detected. Threads that are late by a whole operation, which random orders would hardly
//! produce, are models with a script.

use std::ops::Range;

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use verify_model::controls;
use verify_model::controls::{Attempt, Orders, drawn};
use verify_support::number_from_env;

mod models;

/// The modules on which the library's sources are built.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

    /// How often a thread looks again before it helps.
    pub const SPINS: usize = 1;

    /// Returns immediately.
    pub fn spin_loop() {}
}

/// No thread owns a block here: `tests/kcas_loom` has models of owners.
mod platform {
    pub const NAME_BITS: u32 = 52;

    pub fn has_ended(_name: u64) -> bool {
        false
    }
}

/// k-CAS, unchanged or with a protection removed.
trait Library: 'static {
    /// Begins an execution with this number of descriptors.
    fn anew(descriptors: usize);

    fn begin(version: &sync::AtomicU64) -> u64;

    fn is_still(version: &sync::AtomicU64, number: u64) -> bool;

    fn load(word: &sync::AtomicU64) -> u64;

    /// Exchanges words: each word, its expected value at this version, its new value.
    fn exchange<const N: usize>(
        version: &sync::AtomicU64,
        number: u64,
        parts: [(&sync::AtomicU64, u64, u64); N],
    ) -> bool;

    /// Stores words: each word and its new value.
    fn store_pair_if<const N: usize>(
        version: &sync::AtomicU64,
        number: u64,
        words: [(&sync::AtomicU64, u64); N],
    ) -> bool;

    /// Returns whether a descriptor is taken.
    fn is_one_taken() -> bool;
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            fn anew(count: usize) {
                blocks::anew(count);
            }

            fn begin(version: &crate::sync::AtomicU64) -> u64 {
                kcas::begin(version)
            }

            fn is_still(version: &crate::sync::AtomicU64, number: u64) -> bool {
                kcas::is_still(version, number)
            }

            fn load(word: &crate::sync::AtomicU64) -> u64 {
                kcas::load(word)
            }

            fn exchange<const N: usize>(
                version: &crate::sync::AtomicU64,
                number: u64,
                parts: [(&crate::sync::AtomicU64, u64, u64); N],
            ) -> bool {
                let parts = parts.map(|(word, old, new)| part::Part { word, old, new });
                // SAFETY: a model's words live as long as its threads, and change in no other way.
                unsafe { kcas::exchange(version, number, &parts) }
            }

            fn store_pair_if<const N: usize>(
                version: &crate::sync::AtomicU64,
                number: u64,
                words: [(&crate::sync::AtomicU64, u64); N],
            ) -> bool {
                // SAFETY: a model's words live as long as its threads, and change in no other way.
                unsafe { kcas::store_pair_if(version, number, words) }
            }

            fn is_one_taken() -> bool {
                blocks::is_one_taken()
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/kcas.rs"));

/// Returns the orders of these schedulers.
fn orders(schedulers: Vec<Box<dyn Scheduler + Send>>) -> Orders {
    Orders {
        schedulers,
        max_steps: 5_000,
        stack_size: 1 << 20,
    }
}

/// Returns all models, each in this number of orders.
fn all<L: Library>(count: usize) -> impl Iterator<Item = Attempt<Orders>> {
    let drawn = move |(name, model)| (name, orders(drawn(count)), model);
    models::all::<L>().into_iter().map(drawn)
}

#[test]
fn nothing_is_lost_doubled_or_read_by_halves() {
    // The environment variable allows many more, after changes to k-CAS.
    let count = number_from_env("ATOMSEQ_KCAS_ORDERS", 200);
    for model in all::<as_it_is::This>(count) {
        assert_eq!(controls::holds("k-CAS", model), count / 2 * 2);
    }
}

#[test]
fn nobody_who_comes_late_does_harm() {
    for (name, script, model) in scripted_models::<as_it_is::This>() {
        let count = script.orders();
        let runs = controls::holds("k-CAS", (name, orders(vec![Box::new(script)]), model));
        assert_eq!(runs, count);
    }
}

/// Each model gets a few orders first, and then more; finally those of a script.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    let scripted = |(name, script, model)| (name, orders(vec![Box::new(script) as _]), model);
    let scripts = scripted_models::<L>().into_iter().map(scripted);
    [20, 200].into_iter().flat_map(all::<L>).chain(scripts)
}

// Orders by a script: which thread runs, for how many steps, then which. Every number of steps is
// tried.

/// The thread that the model begins with, and those that it starts, in order.
const FIRST: usize = 0;
const SECOND: usize = 1;
const THIRD: usize = 2;

/// More steps than a model has.
const TO_THE_END: Range<usize> = usize::MAX - 1..usize::MAX;

/// Returns the scripted models, whose invariants hold in all of their orders. A thread takes its
/// operation's version, or is about to store its first reference as a helper, after some twenty
/// steps.
fn scripted_models<L: Library>() -> [(&'static str, Script, fn()); 3] {
    [
        // The second thread begins its change, the third one helps and changes more, and the second
        // one resumes late.
        (
            "an owner that is late, by the script",
            Script::new(vec![
                (FIRST, 2..4),
                (SECOND, 1..40),
                (THIRD, 20..120),
                (SECOND, 1..4),
                (FIRST, TO_THE_END),
            ]),
            models::come_back::<L>,
        ),
        // The second thread begins its change, the third one begins to help, the second one
        // continues, perhaps to its end, and the first one changes the word back; then the third
        // one resumes late.
        (
            "a helper that is late, by the script",
            Script::new(vec![
                (FIRST, 2..4),
                (SECOND, 12..30),
                (THIRD, 12..40),
                (SECOND, 1..16),
                (FIRST, TO_THE_END),
                (THIRD, TO_THE_END),
            ]),
            models::come_back_once::<L>,
        ),
        // The first thread is about to take a descriptor, and fails, while the third one helps the
        // second one.
        (
            "a descriptor that is taken at once, by the script",
            Script::new(vec![
                (FIRST, 5..14),
                (SECOND, 17..30),
                (THIRD, 20..40),
                (FIRST, TO_THE_END),
            ]),
            models::come_back_once::<L>,
        ),
    ]
}

/// A thread and its numbers of steps, one after the other. A thread that has exited or waits for
/// another one is skipped.
pub struct Script {
    stages: Vec<(usize, Range<usize>)>,
    /// The number of the next order.
    order: usize,
    /// The remaining stages of the current order.
    rest: Vec<(usize, usize)>,
}

impl Script {
    fn new(stages: Vec<(usize, Range<usize>)>) -> Script {
        Script {
            stages,
            order: 0,
            rest: Vec::new(),
        }
    }

    /// Returns the number of orders.
    pub fn orders(&self) -> usize {
        self.stages.iter().map(|(_, steps)| steps.len()).product()
    }
}

impl Scheduler for Script {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.order == self.orders() {
            return None;
        }
        let mut number = self.order;
        let stages = self.stages.iter().rev().map(|(thread, steps)| {
            let chosen = steps.start + number % steps.len();
            number /= steps.len();
            (*thread, chosen)
        });
        // The first stage is last, because stages are popped.
        self.rest = stages.collect();
        self.order += 1;
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        _current: Option<TaskId>,
        _is_yielding: bool,
    ) -> Option<TaskId> {
        while let Some((thread, steps)) = self.rest.last_mut() {
            let task = runnable
                .iter()
                .find(|task| usize::from(task.id()) == *thread);
            match task {
                Some(task) if *steps > 0 => {
                    *steps -= 1;
                    return Some(task.id());
                }
                _ => self.rest.pop(),
            };
        }
        // The newest thread, so that no thread waits for others in vain.
        runnable.last().map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}
