//! The rules about where a sequence runs: slots belong to a CPU, and so must the sequence.

use std::collections::HashSet;

use syn::{Error, Result};

use crate::ir::*;

/// A sequence has at most one slot.
///
/// Protects the second slot: `on_cpu` tests one gate, so a thread that has closed the gate of the
/// other slot would be disturbed in it.
pub fn one_slot(sequence: &Sequence) -> Result<()> {
    match sequence.slots().nth(1) {
        None => Ok(()),
        Some((_, second)) => Err(Error::new(
            second.name.span(),
            "a second `Slot`: a sequence tests one gate, so it takes a single `Slot`",
        )),
    }
}

/// A plain `fn` reaches whole words of its slot, at constant offsets, and nothing else.
///
/// Protects callers that vouch for nothing: `on_cpu` and `gated` of such a sequence are safe
/// functions. What makes them sound is a property of the slot's fifteen words, which no caller can
/// take away: they exist as long as the area does, they are initialized and aligned, any value is
/// valid there, and all safe accesses to them are atomic and of a whole word. (Offsets beyond the
/// words are refused in every sequence, by `memory`.) So `load(load(slot + 8))` is refused: the
/// first word may hold any number. `load32(slot + 8)` is refused, because it is an access of
/// another size than that of `Area::peek`, and `prepare_copy`, which is not atomic in `gated`.
///
/// The forms against signal handlers stay unsafe: there a slot is any address.
pub fn plain_functions_reach_the_slot_alone(sequence: &Sequence) -> Result<()> {
    if !sequence.is_safe {
        return Ok(());
    }
    let unsafe_fn = "write `unsafe fn`, and the caller vouches for";
    let Some((slot, _)) = sequence.slots().next() else {
        return Err(Error::new(
            sequence.name.span(),
            format!(
                "a plain `fn` reaches words of a `Slot`, and this one takes none: {unsafe_fn} the \
                 addresses it reaches"
            ),
        ));
    };
    if !sequence.steps.iter().any(Step::is_commit) {
        return Err(Error::new(
            sequence.name.span(),
            format!(
                "without a commit there is only `rolling`, where a `Slot` is any address: \
                 {unsafe_fn} it"
            ),
        ));
    }
    for step in &sequence.steps {
        let address = step.kind.address();
        let half = match step.kind {
            StepKind::Load { width, .. } | StepKind::Store { width, .. } => width == Width::Half,
            _ => false,
        };
        let why = match (&step.kind, address) {
            (StepKind::Copy { .. }, _) => {
                "a plain `fn` copies nothing, because others may read the words meanwhile: prepare \
                 them one by one"
            }
            (_, Some(address)) if address.base != slot => {
                "a plain `fn` reaches words of its `Slot` alone, at constant offsets"
            }
            (_, Some(address)) if address.offset.names_bulk => {
                "a plain `fn` reaches no bulk memory: only the area knows how much there is"
            }
            (_, Some(_)) if half => {
                "a plain `fn` reaches whole words, because others read the slot by whole words"
            }
            _ => continue,
        };
        return Err(Error::new(
            step.span,
            format!("{why}; or {unsafe_fn} this access"),
        ));
    }
    Ok(())
}

/// The address of a slot, and every word computed from it, stays inside the attempt.
///
/// Protects one CPU's words against threads on others. `commit(slot + 8, load(slot + 16)); slot`
/// would return the address; by then the caller may run on another CPU, where neither the section
/// nor the gate it tested protects that slot.
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
                    "the address of a `Slot` is stored, but only this attempt on this CPU may use \
                     it: store the CPU's number, `cpu()`, instead",
                ));
            }
        }
    }
    let ends = sequence.exits.iter().chain([&sequence.end]);
    for exit in ends.chain(&sequence.abort) {
        if exit.result.iter().any(escapes) {
            return Err(Error::new(
                exit.span,
                "the address of a `Slot` is returned, but the caller may be on another CPU by then: \
                 return `cpu()` instead",
            ));
        }
    }
    Ok(())
}

/// Returns these registers, and all that are computed from them.
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

/// A sequence without a slot lets `cpu()` decide something, or does not ask for it.
///
/// Protects against a section that means nothing. `commit(a, cpu())` is atomic against all that
/// runs on this CPU, but `a` is a word of no CPU, which threads on others reach as well. A
/// comparison of `cpu()`, or an address that is computed from it, ties words to a CPU.
///
/// Without `cpu()`, a sequence is atomic against this thread's handlers alone. A handler can
/// neither resume a copy in a clone, because it is a loop, nor repeat a `cas`: such sequences have
/// no form.
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
                "`cas` in a sequence that nothing ties to a CPU: only the kernel reports an \
                 interruption of it; take a `Slot`, or compare `cpu()`",
            ));
        }
        let is_copy = |step: &&Step| matches!(step.kind, StepKind::Copy { .. });
        return match sequence.steps.iter().find(is_copy) {
            None => Ok(()),
            Some(copy) => Err(Error::new(
                copy.span,
                "`prepare_copy` in a sequence that nothing ties to a CPU: only the kernel restarts \
                 a copy; take a `Slot`, or compare `cpu()`",
            )),
        };
    }
    let numbers = derived(sequence, cpu.into_iter());
    let is_number = |operand: &Operand| {
        operand
            .register()
            .is_some_and(|register| numbers.contains(&register))
    };
    // A comparison, or an address: an index into per-CPU words.
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
            "nothing ties this sequence to a CPU: take a `Slot`, or compare `cpu()`; for a \
             sequence against this thread's signal handlers alone, remove `cpu()`",
        )),
    }
}
