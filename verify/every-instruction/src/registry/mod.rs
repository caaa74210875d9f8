//! A scenario for each operation of the library that has a sequence.
//!
//! A new sequence needs one here: without it the test finds instructions that nothing reached.
//! Every structure is used through wrappers that are never inlined, so that each operation has one
//! copy of its sequence in the program.

mod containers;
mod dcas;
mod own;
mod pool;
mod ring;
mod sums;

use crate::scenario::{Check, Words};
use verify_support::cpus;

/// Checks everything.
pub fn check(checker: &mut impl Check) {
    sums::check_counter(checker);
    sums::check_histogram(checker);
    containers::check(checker);
    ring::check(checker);
    pool::check(checker);
    own::check_flags(checker);
    own::check(checker);
}

/// Checks what a claim protects, where sections run.
pub fn check_claims(checker: &mut impl Check) {
    dcas::check(checker);
}

/// Checks what closes a gate and has no sequence.
pub fn check_remote(checker: &mut impl Check) {
    pool::check_remote(checker);
}

/// Does something on each CPU that takes part, ending on the home CPU; it gets a number to tell
/// them apart.
fn on_both(mut work: impl FnMut(u64)) {
    for cpu in cpus::both() {
        cpus::move_to(cpu);
        work(1000 * cpu as u64);
    }
}

/// What each CPU that takes part has, the CPU's number first: taken out one by one until there is
/// no more.
fn by_cpu(mut take: impl FnMut(usize) -> Option<u64>) -> Words {
    cpus::both()
        .flat_map(|cpu| {
            let taken: Words = std::iter::from_fn(|| take(cpu)).collect();
            [u64::MAX, cpu as u64].into_iter().chain(taken)
        })
        .collect()
}

/// A word or none, as words.
fn found(word: Option<u64>) -> Words {
    word.into_iter().collect()
}

/// Whether something was taken, and what was given back if not.
fn taken(result: Result<(), u64>) -> Words {
    result.err().into_iter().collect()
}
