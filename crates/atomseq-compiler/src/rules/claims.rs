//! The rules of sequences with a `cas`. What it claims is visible at once, so such a sequence is
//! not restarted: it is attempted once, and an interruption ends it, wherever it was. From the
//! `cas` on, every way out that the sequence takes by itself gives back what was claimed, by the
//! one commit.

use syn::{Error, Result};

use super::ranges::same;
use crate::ir::*;

/// Without a `cas` an interruption starts the sequence again, and a commit is no way to leave
/// early.
pub fn none(sequence: &Sequence) -> Result<()> {
    if let Some(abort) = &sequence.abort {
        return Err(Error::new(
            abort.span,
            "an abort block in a sequence without `cas`: an interruption starts it again, and nobody \
             is told",
        ));
    }
    match sequence.exits.iter().find_map(|exit| exit.commit.as_ref()) {
        None => Ok(()),
        Some(commit) => Err(Error::new(
            commit.span,
            "a commit before an early `return` gives back what a `cas` has claimed, and there is no \
             `cas`",
        )),
    }
}

/// `claim` is where the `cas` is.
pub fn check(sequence: &Sequence, claim: usize, assertions: &mut Vec<Assertion>) -> Result<()> {
    let steps = &sequence.steps;
    stores(steps, claim)?;
    if sequence.abort.is_none() {
        return Err(Error::new(
            steps[claim].span,
            "a `cas` cannot be repeated, so an interruption ends the sequence: say what its caller is \
             told, at the beginning, by `'abort: { return … }`",
        ));
    }
    outcome_is_tested(sequence, claim, assertions)?;
    ways_out(sequence, claim, assertions)
}

fn stores(steps: &[Step], claim: usize) -> Result<()> {
    for (index, step) in steps.iter().enumerate() {
        let why = match step.kind {
            StepKind::CompareExchange { .. } if index != claim => {
                "a second `cas`: after an interruption nobody could tell which of the two happened"
            }
            _ if step.is_prepare() => {
                "a `prepare` beside a `cas`: nothing is prepared for a restart where there is none; use \
                 `store`, after the `cas`"
            }
            _ if step.is_visible() && index < claim => {
                "a visible store before the `cas`: only what has been claimed is stored to"
            }
            _ => continue,
        };
        return Err(Error::new(step.span, why));
    }
    Ok(())
}

/// Is this exit taken exactly when the `cas` failed?
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
fn outcome_is_tested(
    sequence: &Sequence,
    claim: usize,
    assertions: &mut Vec<Assertion>,
) -> Result<()> {
    let claimed = &sequence.steps[claim];
    match sequence.steps.get(claim + 1) {
        Some(next) if tests_outcome(next, claimed, assertions) => Ok(()),
        _ => Err(Error::new(
            claimed.span,
            "a `cas` may fail: name what it found, and leave right after it, by \
             `if found != expected { return … }`",
        )),
    }
}

fn ways_out(sequence: &Sequence, claim: usize, assertions: &mut Vec<Assertion>) -> Result<()> {
    let last = sequence.steps.iter().find(|step| step.is_commit());
    for (index, step) in sequence.steps.iter().enumerate() {
        let StepKind::Exit { exit, .. } = step.kind else {
            continue;
        };
        let why = match &sequence.exits[exit].commit {
            None if index <= claim + 1 => continue,
            None => {
                "an early `return` after the `cas`: what was claimed would stay so; give it back first, by \
                 the commit that ends the sequence"
            }
            Some(_) if index <= claim + 1 => {
                "a commit before an early `return` gives back what the `cas` has claimed, and nothing is \
                 claimed here"
            }
            Some(commit) => match last {
                Some(last) if same_store(commit, last, assertions) => continue,
                _ => {
                    "an early `return` gives back what was claimed by the same commit that ends the \
                     sequence: the section ends with one instruction"
                }
            },
        };
        return Err(Error::new(step.span, why));
    }
    Ok(())
}

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
