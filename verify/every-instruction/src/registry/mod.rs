//! A scenario for each operation of the library that has a sequence.
//!
//! Every new sequence needs one here: without it the test reports instructions that were not
//! reached. Every structure is used through wrappers that are never inlined, so that each operation
//! has one copy of its sequence in the program.

mod containers;
mod dcas;
mod own;
mod pool;
mod readers;
mod ring;
mod sums;

use crate::scenario::{Check, Words};
use verify_support::cpus;

/// Checks all scenarios.
pub fn check(checker: &mut impl Check) {
    sums::check_counter(checker);
    sums::check_counters(checker);
    sums::check_histogram(checker);
    containers::check(checker);
    ring::check(checker);
    pool::check(checker);
    own::check_flags(checker);
    readers::check(checker);
    own::check(checker);
}

/// Checks the operations that a claim protects, where sections run.
pub fn check_claims(checker: &mut impl Check) {
    dcas::check(checker);
}

/// Checks the operations that close a gate and have no sequence.
pub fn check_remote(checker: &mut impl Check) {
    pool::check_remote(checker);
}

/// Runs `work` on each participating CPU, the home CPU last, with a number that differs on each.
fn on_both(mut work: impl FnMut(u64)) {
    for cpu in cpus::both() {
        cpus::move_to(cpu);
        work(1000 * cpu as u64);
    }
}

/// Returns the elements of each participating CPU, preceded by the CPU's number: takes them out one
/// by one until none is left.
fn by_cpu(mut take: impl FnMut(usize) -> Option<u64>) -> Words {
    cpus::both()
        .flat_map(|cpu| {
            let taken: Words = std::iter::from_fn(|| take(cpu)).collect();
            [u64::MAX, cpu as u64].into_iter().chain(taken)
        })
        .collect()
}

/// Returns a word or none, as words.
fn found(word: Option<u64>) -> Words {
    word.into_iter().collect()
}

/// Returns the refused element, if there was one, as words.
fn taken(result: Result<(), u64>) -> Words {
    result.err().into_iter().collect()
}
