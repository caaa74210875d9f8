//! OS-assisted changes under shuttle: the library's own `dcas/assisted.rs` and `shadow.rs`, over
//! atomics that shuttle steps, with their sections as data on a machine that aborts them. Threads
//! that run sections are among threads that cannot, and so lock; some are stopped indefinitely, and
//! some were left behind by a fork. Memory is sequentially consistent here.
//!
//! `verify_model::dcas` and `shadow` exhaust the states of the same protocols, written a second
//! time. This test runs the library's own code in many orders.
//!
//! Protections are removed one by one, by mutations of the sources (`mutations/`), and each must be
//! detected.

mod machine;
mod models;

/// The modules on which the library's sources are built.
mod sync {
    pub use crate::machine::{AtomicU64, spin_loop, yield_now};
    pub use std::sync::atomic::Ordering;

    /// Memory is sequentially consistent here.
    pub fn fence(_order: Ordering) {}
}

/// The kernel.
mod platform {
    pub use crate::machine::{
        SignalsBlocked, current_cpu, fence_all, generation, membarrier_rseq, register_this_thread,
    };

    /// Numbers are reused: the models never ask for their owners.
    pub fn thread_id() -> u32 {
        1
    }

    pub fn is_gone(_thread: u32) -> bool {
        false
    }
}

/// The run-time side of sections.
mod generated {
    pub use crate::machine::Restarts;
}

mod sequence {
    pub use atomseq::sequence::{Closed, model};
}

/// Replaces the compiler's macro: sections are run as data.
#[macro_export]
macro_rules! sequence {
    (@type Word) => { usize };
    (@type bool) => { bool };
    ($(
        $(#[$attribute:meta])*
        $visibility:vis unsafe fn $name:ident($($parameter:ident: Word),* $(,)?) -> $result:ident $body:tt
    )*) => {$(
        #[allow(non_camel_case_types)]
        $visibility enum $name {}

        impl $name {
            $visibility const MODEL: atomseq::sequence::model::Program = $crate::machine::NOTHING;

            $visibility unsafe fn on_cpu(
                $($parameter: usize),*
            ) -> Result<$crate::sequence!(@type $result), atomseq::sequence::Closed> {
                let program = $crate::machine::program(stringify!($name));
                $crate::machine::run(program, &[$($parameter),*]).map($crate::machine::FromValue::from_value)
            }
        }
    )*};
}

use verify_model::controls;
use verify_model::controls::Attempt;
use verify_model::controls::Orders;
use verify_support::number_from_env;

/// The library, unchanged or with a protection removed.
trait Library: 'static {
    /// The lock and the log of two or more words.
    type Line: Send + Sync + 'static;
    /// The lock and the states of a stack.
    type Shadow: Send + Sync + 'static;

    fn line() -> Self::Line;
    fn begin(line: &Self::Line) -> u64;
    fn is_still(line: &Self::Line, version: u64) -> bool;
    /// Exchanges two words: the words, their expected values, their new values.
    fn exchange(
        line: &Self::Line,
        words: [&sync::AtomicU64; 2],
        old: [u64; 2],
        new: [u64; 2],
    ) -> bool;
    fn since(line: &Self::Line, version: u64, words: [&sync::AtomicU64; 2], new: [u64; 2]) -> bool;

    fn shadow() -> Self::Shadow;
    /// Returns the number of words, in bytes.
    fn height(shadow: &Self::Shadow) -> u64;
    fn push(shadow: &Self::Shadow, cells: &models::Cells, word: u64) -> bool;
    fn pop(shadow: &Self::Shadow, cells: &models::Cells) -> Option<u64>;
}

macro_rules! library {
    () => {
        pub struct Version(pub u64);

        /// Threads do not sleep here.
        mod contention {
            pub fn back_off<T>(_object: &T) {}
        }

        mod backoff {
            pub struct Backoff;

            impl Backoff {
                pub fn new() -> Backoff {
                    Backoff
                }

                pub fn during(_changes: u64) -> Backoff {
                    Backoff
                }

                pub fn spin(&mut self) {}
            }

            /// Every wait is in vain.
            #[derive(Debug, Default)]
            pub struct Patience;

            impl Patience {
                pub fn wait(
                    &self,
                    _changes: u64,
                    _pauses: u64,
                    _seen: u64,
                    _look: impl Fn() -> u64,
                ) {
                }
            }
        }

        pub struct This;
        pub struct Line(assisted::RevocableLock);
        pub struct Shadow(shadow::Shadow);

        struct Push<'a>(usize, &'a crate::models::Cells, u64, &'static str);
        struct Pop<'a>(usize, &'a crate::models::Cells, u64, &'static str);

        impl shadow::Change for Push<'_> {
            fn attempt(&mut self) -> Option<usize> {
                let Push(shadow, cells, word, program) = self;
                let arguments = [
                    *shadow,
                    cells.address(),
                    cells.room() as usize,
                    *word as usize,
                ];
                let program = crate::machine::program(std::mem::replace(program, "push_anyway"));
                let outcome = crate::machine::run(program, &arguments);
                outcome.ok().map(|outcome| outcome.words[0])
            }

            fn is_refused(&self, state: u64) -> bool {
                state == self.1.room()
            }

            fn store(&mut self, _version: u64, state: u64) -> u64 {
                self.1
                    .at(state)
                    .store(self.2, crate::sync::Ordering::Relaxed);
                state + 8
            }

            fn opposite(&self, state: u64) -> u64 {
                state / 8
            }
        }

        impl shadow::Change for Pop<'_> {
            fn attempt(&mut self) -> Option<usize> {
                let arguments = [self.0, self.1.address()];
                let program = std::mem::replace(&mut self.3, "pop_anyway");
                let program = crate::machine::program(program);
                let outcome = crate::machine::run(program, &arguments).ok()?;
                self.2 = outcome.words[1] as u64;
                Some(outcome.words[0])
            }

            fn is_refused(&self, state: u64) -> bool {
                state == 0
            }

            fn store(&mut self, _version: u64, state: u64) -> u64 {
                self.2 = self.1.at(state - 8).load(crate::sync::Ordering::Relaxed);
                state - 8
            }

            fn opposite(&self, state: u64) -> u64 {
                (self.1.room() - state) / 8
            }
        }

        impl crate::Library for This {
            type Line = Line;
            type Shadow = Shadow;

            fn line() -> Line {
                Line(assisted::RevocableLock::new())
            }

            fn begin(line: &Line) -> u64 {
                line.0.begin()
            }

            fn is_still(line: &Line, version: u64) -> bool {
                line.0.is_still(version)
            }

            fn exchange(
                line: &Line,
                words: [&crate::sync::AtomicU64; 2],
                old: [u64; 2],
                new: [u64; 2],
            ) -> bool {
                let [first, second] = [0, 1].map(|index: usize| part::Part {
                    word: words[index],
                    old: old[index],
                    new: new[index],
                });
                // SAFETY: a model's words live as long as the call, and change in no other way; the
                // machine checks that.
                unsafe { line.0.exchange(first, second) }
            }

            fn since(
                line: &Line,
                version: u64,
                words: [&crate::sync::AtomicU64; 2],
                new: [u64; 2],
            ) -> bool {
                let [first, second] = [0, 1].map(|index: usize| part::Part {
                    word: words[index],
                    old: 0,
                    new: new[index],
                });
                // SAFETY: a model's words live as long as the call, and change in no other way; the
                // machine checks that.
                unsafe { line.0.store_pair_if(version, first, second) }
            }

            fn shadow() -> Shadow {
                Shadow(shadow::Shadow::new())
            }

            fn height(shadow: &Shadow) -> u64 {
                shadow.0.state()
            }

            fn push(shadow: &Shadow, cells: &crate::models::Cells, word: u64) -> bool {
                let mut push = Push(shadow.0.address(), cells, word, "push");
                let outcome = shadow::Change::attempt(&mut push);
                outcome == Some(shadow::DONE) || shadow.0.change_slowly(&mut push, outcome)
            }

            fn pop(shadow: &Shadow, cells: &crate::models::Cells) -> Option<u64> {
                let mut pop = Pop(shadow.0.address(), cells, 0, "pop");
                let outcome = shadow::Change::attempt(&mut pop);
                let popped =
                    outcome == Some(shadow::DONE) || shadow.0.change_slowly(&mut pop, outcome);
                popped.then_some(pop.2)
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/assisted.rs"));

/// Returns all models, each in this number of orders.
fn all<L: Library>(count: usize) -> impl Iterator<Item = Attempt<Orders>> {
    models::all::<L>()
        .into_iter()
        .map(move |(name, model)| (name, Orders::drawn(count, 20_000), model))
}

#[test]
fn nothing_is_lost_doubled_or_read_by_halves() {
    // The environment variable allows many more, after changes to the protocols.
    let count = number_from_env("ATOMSEQ_ASSISTED_ORDERS", 400);
    let mut aborted = 0;
    for model in all::<as_it_is::This>(count) {
        let name = model.0;
        machine::events();
        let runs = controls::holds("assisted", model);
        let events = machine::events();
        println!("model: assisted: {name}: {events:?}");
        assert_eq!(runs, count / 2 * 2);
        // A run without locks, or without aborts, proves nothing here.
        assert!(events.locked > count / 20, "{name}: {events:?}");
        aborted += events.aborted;
    }
    assert!(aborted > count, "only {aborted} sections were aborted");
}

/// Each model gets a few orders first, and then more.
fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    [20, 200, 2_000, 20_000].into_iter().flat_map(all::<L>)
}
