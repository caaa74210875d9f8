//! The rules every restartable sequence keeps, checked on the intermediate representation:
//! one commit, last; no slot escapes; nothing prepared is read too early or seen twice; something
//! ties the sequence to its CPU.

use std::collections::HashSet;

use syn::{Error, Result};

use super::ir::*;

pub fn check(sequence: &Sequence) -> Result<()> {
    one_commit_at_the_end(sequence)?;
    no_slot_escapes(sequence)?;
    prepared_words_stay_hidden(sequence)?;
    tied_to_its_cpu(sequence)
}

fn is_commit(step: &Step) -> bool {
    matches!(
        step.kind,
        StepKind::Store {
            kind: StoreKind::Commit,
            ..
        }
    )
}

/// B91 2.4: a restarted sequence may repeat anything but its last store.
fn one_commit_at_the_end(sequence: &Sequence) -> Result<()> {
    let Some(commit) = sequence.steps.iter().position(is_commit) else {
        return Err(Error::new(
            sequence.name.span(),
            "no commit: a restartable sequence ends in one visible store",
        ));
    };
    let Some(after) = sequence.steps.get(commit + 1) else {
        return Ok(());
    };
    let why = match after.kind {
        StepKind::Store {
            kind: StoreKind::Commit,
            ..
        } => "a second commit: a restart between the two would repeat the first",
        StepKind::Store { .. } | StepKind::Copy { .. } => {
            "a store after the commit: an interruption in between would leave it out"
        }
        _ => "a step after the commit: compute and load before it, then return what you named",
    };
    Err(Error::new(after.span, why))
}

/// An address of one CPU's slot is of no use on another CPU, where the caller may already be.
fn no_slot_escapes(sequence: &Sequence) -> Result<()> {
    let mut slots: HashSet<Register> = sequence.slots().map(|(register, _)| register).collect();
    let escapes = |slots: &HashSet<Register>, operand: &Operand| {
        operand
            .register()
            .is_some_and(|register| slots.contains(&register))
    };
    for step in &sequence.steps {
        match &step.kind {
            StepKind::Binary { to, a, b, .. } if escapes(&slots, a) || escapes(&slots, b) => {
                slots.insert(*to);
            }
            StepKind::Store { value, .. } if escapes(&slots, value) => {
                return Err(Error::new(
                    step.span,
                    "a Slot escapes: its address is stored, but only this attempt on this CPU may use it",
                ));
            }
            StepKind::Exit { exit, .. }
                if sequence.exits[*exit]
                    .result
                    .iter()
                    .any(|operand| escapes(&slots, operand)) =>
            {
                return Err(Error::new(step.span, SLOT_RETURNED));
            }
            _ => {}
        }
    }
    if sequence
        .result
        .iter()
        .any(|operand| escapes(&slots, operand))
    {
        return Err(Error::new(sequence.name.span(), SLOT_RETURNED));
    }
    Ok(())
}

const SLOT_RETURNED: &str =
    "a Slot escapes: its address is returned, but the caller may be on another CPU by then";

/// What an interrupted attempt prepared is garbage to the next one, and to everybody else until
/// the commit.
fn prepared_words_stay_hidden(sequence: &Sequence) -> Result<()> {
    let mut ahead: HashSet<_> = sequence.steps.iter().filter_map(prepares).collect();
    let all = ahead.clone();
    for step in &sequence.steps {
        match &step.kind {
            StepKind::Load { from, .. } if ahead.contains(&from.key()) => {
                return Err(Error::new(
                    step.span,
                    "a prepared word is loaded before it is prepared: after a restart it holds \
                     what an earlier attempt left there",
                ));
            }
            StepKind::Store {
                kind: StoreKind::Commit,
                to,
                ..
            } if all.contains(&to.key()) => {
                return Err(Error::new(
                    step.span,
                    "the committed word is prepared as well: the first of the two stores would \
                     be visible before the commit",
                ));
            }
            _ => {}
        }
        if let Some(key) = prepares(step) {
            ahead.remove(&key);
        }
    }
    Ok(())
}

fn prepares(step: &Step) -> Option<(Register, String)> {
    match &step.kind {
        StepKind::Store {
            kind: StoreKind::Prepare,
            to,
            ..
        } => Some(to.key()),
        _ => None,
    }
}

fn tied_to_its_cpu(sequence: &Sequence) -> Result<()> {
    if let Some((_, second)) = sequence.slots().nth(1) {
        return Err(Error::new(
            second.name.span(),
            "a second Slot: a sequence tests one gate, that of the one slot it works on",
        ));
    }
    if sequence.slots().next().is_some() || sequence.reads_cpu() {
        return Ok(());
    }
    Err(Error::new(
        sequence.name.span(),
        "nothing ties this sequence to a CPU: take a `Slot`, or compare `cpu()`",
    ))
}
