//! The rules of sequences, checked on the intermediate representation: visible stores alone, or one
//! commit, last; no slot escapes; accesses stay inside the slot; nothing prepared is read too
//! early or seen twice; what asks for its CPU is tied to it. Those of a `cas` are in `claims`.
//!
//! What two addresses have in common is known when they start from the same register: then their
//! offsets and lengths tell. If one of these is a named constant, the rule becomes an assertion for
//! rustc.

use syn::{Error, Result};

use crate::ir::*;

mod claims;
mod memory;
mod place;
mod ranges;

pub fn check(sequence: &mut Sequence) -> Result<()> {
    let mut assertions = Vec::new();
    match sequence.compare_exchange() {
        Some(claim) => claims::check(sequence, claim, &mut assertions)?,
        None => {
            claims::none(sequence)?;
            one_kind_of_store(sequence)?;
        }
    }
    one_commit_at_the_end(sequence)?;
    place::one_slot(sequence)?;
    place::no_slot_escapes(sequence)?;
    memory::offsets_fit(sequence, &mut assertions)?;
    memory::prepared_words_stay_hidden(sequence, &mut assertions)?;
    place::tied_to_its_cpu(sequence)?;
    sequence.assertions.append(&mut assertions);
    Ok(())
}

/// What is restarted stores nothing visible before its end; what stores at will is run to its end.
fn one_kind_of_store(sequence: &Sequence) -> Result<()> {
    let Some(visible) = sequence.steps.iter().find(|step| step.is_visible()) else {
        return Ok(());
    };
    for step in &sequence.steps {
        let error = match step.kind {
            StepKind::Store {
                kind: StoreKind::Visible,
                ..
            } => continue,
            StepKind::Store { .. } | StepKind::Copy { .. } => Error::new(
                visible.span,
                "a visible store in a restartable sequence: it would happen again on every \
                 restart; use `prepare` before the commit, or make it the `commit`; or store \
                 everything by `store`, and the sequence is rolled forward instead",
            ),
            StepKind::Cpu { .. } => Error::new(
                step.span,
                "`cpu()` in a sequence with visible stores: only a restart holds a sequence on its \
                 CPU",
            ),
            _ => continue,
        };
        return Err(error);
    }
    Ok(())
}

/// Does it store nothing, on no CPU's behalf? Rolled forward, it sees all its words at one time.
fn only_reads(sequence: &Sequence) -> bool {
    let other = |step: &Step| {
        matches!(
            step.kind,
            StepKind::Store { .. }
                | StepKind::Copy { .. }
                | StepKind::Cpu { .. }
                | StepKind::CompareExchange { .. }
        )
    };
    sequence.slots().next().is_none() && !sequence.steps.iter().any(other)
}

/// B91 2.4: a restarted sequence may repeat anything but its last store.
fn one_commit_at_the_end(sequence: &Sequence) -> Result<()> {
    let rolls =
        sequence.compare_exchange().is_none() && sequence.steps.iter().any(Step::is_visible);
    if only_reads(sequence) || rolls {
        return Ok(());
    }
    let Some(commit) = sequence.steps.iter().position(Step::is_commit) else {
        return Err(Error::new(
            sequence.name.span(),
            "no commit: a restartable sequence ends in one visible store; one that is rolled \
             forward has any number, by `store`",
        ));
    };
    let after = &sequence.steps[commit + 1..];
    // An address is computed before it is used: name what it is used for.
    let telling = |step: &&Step| !matches!(step.kind, StepKind::Binary { .. });
    let Some(after) = after.iter().find(telling).or(after.first()) else {
        return Ok(());
    };
    let why = match after.kind {
        _ if after.is_commit() => {
            "a second commit: a restart between the two would repeat the first"
        }
        StepKind::Store { .. } | StepKind::Copy { .. } | StepKind::CompareExchange { .. } => {
            "a store after the commit: an interruption in between would leave it out"
        }
        StepKind::Exit { .. } => "an early return after the commit: leave before it",
        StepKind::Load { .. } => {
            "a load after the commit, where the sequence has ended: load before it, then return \
             what you named"
        }
        _ => "a step after the commit: compute before it, then return what you named",
    };
    Err(Error::new(after.span, why))
}
