//! The rules of sequences with a `cas`.
//!
//! What a `cas` claims is visible to other CPUs at once, so such a sequence is not restarted: it is
//! attempted once, and an interruption ends it, wherever it was. From the `cas` on, every way out
//! that the sequence takes by itself releases the claim, by the one commit:
//!
//! ```text
//! 'abort: { return … }               the result of an interrupted attempt: parameters and constants
//! …                                  loads and early returns, no store
//! let found = cas(lock, 0, 1);       the claim
//! if found != 0 { return … }         right after it: nothing was claimed
//! …                                  loads, visible stores
//! if … { commit(lock, 0); return … } an early return releases the claim first
//! commit(lock, 0);                   the same store ends the section
//! ```
//!
//! So an interrupted attempt is the only one that leaves a claim behind, and its caller knows that
//! it may have.

use syn::{Error, Result};

use super::ranges::same;
use crate::ir::*;

/// Checks a sequence without a `cas`: an interruption restarts it, so it has no abort block, and
/// its one commit is its end.
pub fn none(sequence: &Sequence) -> Result<()> {
    if let Some(abort) = &sequence.abort {
        return Err(Error::new(
            abort.span,
            "an abort block in a sequence without `cas`: an interruption restarts it, and nothing \
             returns this; remove the block",
        ));
    }
    match sequence.exits.iter().find_map(|exit| exit.commit.as_ref()) {
        None => Ok(()),
        Some(commit) => Err(Error::new(
            commit.span,
            "a commit before an early `return` releases the claim of a `cas`, and there is no \
             `cas`; remove the commit",
        )),
    }
}

/// Checks a sequence whose `cas` is the step `claim`.
pub fn check(sequence: &Sequence, claim: usize, assertions: &mut Vec<Assertion>) -> Result<()> {
    let steps = &sequence.steps;
    stores(steps, claim)?;
    if sequence.abort.is_none() {
        return Err(Error::new(
            steps[claim].span,
            "a `cas` cannot be repeated, so an interruption ends the attempt: begin with \
             `'abort: { return … }`, the result of an interrupted attempt",
        ));
    }
    outcome_is_tested(sequence, claim, assertions)?;
    ways_out(sequence, claim, assertions)
}

/// One `cas`; no visible store before it; nothing prepared.
///
/// Protects the caller's recovery: after an interruption it must find out from memory alone how far
/// the attempt came. It can, if the one claim precedes everything else that is visible.
fn stores(steps: &[Step], claim: usize) -> Result<()> {
    for (index, step) in steps.iter().enumerate() {
        let why = match step.kind {
            StepKind::CompareExchange { .. } if index != claim => {
                "a second `cas`: after an interruption the caller could not find out which of the two \
                 took effect; claim once"
            }
            _ if step.is_prepare() => {
                "a `prepare` beside a `cas`, where nothing is restarted: use `store`, after the `cas`"
            }
            _ if step.is_visible() && index < claim => {
                "a visible store before the `cas`: store after it, to what it has claimed"
            }
            _ => continue,
        };
        return Err(Error::new(step.span, why));
    }
    Ok(())
}

/// Whether this exit is taken exactly if the `cas` failed.
fn tests_outcome(step: &Step, claim: &Step, assertions: &mut Vec<Assertion>) -> bool {
    let (
        StepKind::Exit {
            comparison: Comparison::NotEqual,
            a,
            b,
            ..
        },
        StepKind::CompareExchange { to, expected, .. },
    ) = (&step.kind, &claim.kind)
    else {
        return false;
    };
    let found = |operand: &Operand| operand.register() == Some(*to);
    let mut is_expected = |operand| same(operand, expected, step.span, assertions);
    found(a) && is_expected(b) || found(b) && is_expected(a)
}

/// The step after the `cas` leaves if it failed.
///
/// Protects the claim of another thread: without this test the sequence would store to what it does
/// not hold, and its commit would release what another thread holds.
fn outcome_is_tested(
    sequence: &Sequence,
    claim: usize,
    assertions: &mut Vec<Assertion>,
) -> Result<()> {
    let (claimed, after) = (&sequence.steps[claim], &sequence.steps[claim + 1..]);
    let computes = |step: &&Step| matches!(step.kind, StepKind::Binary { .. });
    let computed = after.iter().take_while(computes).count();
    let is_tested = after
        .get(computed)
        .is_some_and(|next| tests_outcome(next, claimed, assertions));
    match computed {
        0 if is_tested => Ok(()),
        _ if is_tested => Err(Error::new(
            after[0].span,
            "nothing is computed between a `cas` and its test, and the words of an early `return` are \
             computed before the test: compute this before the `cas`, or return the word that it found",
        )),
        _ => Err(Error::new(
            claimed.span,
            "a `cas` may fail: name the word that it found, and return right after it, by \
             `if found != expected { return … }`",
        )),
    }
}

/// Every early return after the test releases the claim, by the store that ends the sequence.
///
/// Protects other threads against a claim that no thread would ever release. It must be the same
/// store, because the section has one last instruction, and nothing may follow it inside.
fn ways_out(sequence: &Sequence, claim: usize, assertions: &mut Vec<Assertion>) -> Result<()> {
    let last = sequence.steps.iter().find(|step| step.is_commit());
    for (index, step) in sequence.steps.iter().enumerate() {
        let StepKind::Exit { exit, .. } = step.kind else {
            continue;
        };
        let why = match &sequence.exits[exit].commit {
            None if index <= claim + 1 => continue,
            None => {
                "an early `return` after the `cas` would leave the claim in memory: release it first, \
                 by the commit that ends the sequence"
            }
            Some(_) if index <= claim + 1 => {
                "a commit before an early `return` releases the claim of the `cas`, and nothing is \
                 claimed yet; remove the commit"
            }
            Some(commit) => match last {
                Some(last) if same_store(commit, last, assertions) => continue,
                _ => {
                    "an early `return` releases the claim by the same commit that ends the sequence: the \
                     section ends with one instruction"
                }
            },
        };
        return Err(Error::new(step.span, why));
    }
    Ok(())
}

/// Whether both are the same store; constants that read the same are asserted to be equal.
fn same_store(a: &Step, b: &Step, assertions: &mut Vec<Assertion>) -> bool {
    let parts = |step: &Step| match &step.kind {
        StepKind::Store {
            to,
            value,
            width,
            release,
            ..
        } => Some((to.clone(), value.clone(), (*width, *release))),
        _ => None,
    };
    let (Some((a_to, a_value, a_how)), Some((b_to, b_value, b_how))) = (parts(a), parts(b)) else {
        return false;
    };
    let offset = |address: &Address| Operand::Constant(address.offset.clone());
    a_how == b_how
        && a_to.base == b_to.base
        && same(&offset(&a_to), &offset(&b_to), a.span, assertions)
        && same(&a_value, &b_value, a.span, assertions)
}
