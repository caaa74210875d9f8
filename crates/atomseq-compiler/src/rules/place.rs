//! Place.

use std::collections::HashSet;

use syn::{Error, Result};

use crate::ir::*;

pub fn one_slot(sequence: &Sequence) -> Result<()> {
    match sequence.slots().nth(1) {
        None => Ok(()),
        Some((_, second)) => Err(Error::new(
            second.name.span(),
            "a second Slot: a sequence tests one gate, that of the one slot it works on",
        )),
    }
}

/// An address of one CPU's slot is of no use on another CPU, where the caller may already be.
pub fn no_slot_escapes(sequence: &Sequence) -> Result<()> {
    let slots = derived(sequence, sequence.slots().map(|(register, _)| register));
    let escapes = |operand: &Operand| {
        operand
            .register()
            .is_some_and(|register| slots.contains(&register))
    };
    for step in &sequence.steps {
        if let StepKind::Store { value, .. } | StepKind::CompareExchange { new: value, .. } =
            &step.kind
        {
            if escapes(value) {
                return Err(Error::new(
                    step.span,
                    "a Slot escapes: its address is stored, but only this attempt on this CPU may \
                     use it",
                ));
            }
        }
    }
    let ends = sequence.exits.iter().chain([&sequence.end]);
    for exit in ends.chain(&sequence.abort) {
        if exit.result.iter().any(escapes) {
            return Err(Error::new(
                exit.span,
                "a Slot escapes: its address is returned, but the caller may be on another CPU by \
                 then",
            ));
        }
    }
    Ok(())
}

/// These registers, and all that is computed from them.
fn derived(sequence: &Sequence, from: impl Iterator<Item = Register>) -> HashSet<Register> {
    let mut derived: HashSet<Register> = from.collect();
    for step in &sequence.steps {
        if let StepKind::Binary { to, a, b, .. } = &step.kind {
            if [a, b]
                .into_iter()
                .filter_map(Operand::register)
                .any(|register| derived.contains(&register))
            {
                derived.insert(*to);
            }
        }
    }
    derived
}

/// A slot is found by the CPU's number. Without one, that number must decide something, or not be
/// asked for: then only this thread's handlers are kept out.
pub fn tied_to_its_cpu(sequence: &Sequence) -> Result<()> {
    if sequence.slots().next().is_some() {
        return Ok(());
    }
    let cpu: Vec<Register> = sequence
        .steps
        .iter()
        .filter_map(|step| match step.kind {
            StepKind::Cpu { to } => Some(to),
            _ => None,
        })
        .collect();
    if cpu.is_empty() {
        if let Some(claim) = sequence.compare_exchange() {
            return Err(Error::new(
                sequence.steps[claim].span,
                "`cas` in a sequence that nothing ties to a CPU: only the kernel says when it was \
                 interrupted; take a `Slot`, or compare `cpu()`",
            ));
        }
        let is_copy = |step: &&Step| matches!(step.kind, StepKind::Copy { .. });
        return match sequence.steps.iter().find(is_copy) {
            None => Ok(()),
            Some(copy) => Err(Error::new(
                copy.span,
                "`prepare_copy` in a sequence that nothing ties to a CPU: only the kernel restarts a \
                 copy; take a `Slot`, or compare `cpu()`",
            )),
        };
    }
    let numbers = derived(sequence, cpu.into_iter());
    let is_number = |operand: &Operand| {
        operand
            .register()
            .is_some_and(|register| numbers.contains(&register))
    };
    let decides = |step: &Step| match &step.kind {
        StepKind::Exit { a, b, .. } => is_number(a) || is_number(b),
        StepKind::Load { from, .. } => numbers.contains(&from.base),
        StepKind::CompareExchange { at, .. } => numbers.contains(&at.base),
        StepKind::Store { to, .. } => numbers.contains(&to.base),
        StepKind::Copy { to, from, .. } => numbers.contains(to) || numbers.contains(from),
        StepKind::Cpu { .. } | StepKind::Binary { .. } => false,
    };
    match sequence.steps.iter().any(decides) {
        true => Ok(()),
        false => Err(Error::new(
            sequence.name.span(),
            "nothing ties this sequence to a CPU: take a `Slot`, or compare `cpu()`; against this \
             thread's signal handlers alone, do not ask for it",
        )),
    }
}
