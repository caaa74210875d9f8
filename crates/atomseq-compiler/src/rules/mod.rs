//! The rules that every sequence keeps to, checked on the steps. The first rule that is broken is
//! reported, at its step.
//!
//! | rule | what it protects | broken by |
//! |---|---|---|
//! | one kind of store | a restart repeats no visible store | `store(a, 1); commit(b, 2)` |
//! | one commit, last | a restart repeats everything before it and nothing after it | `commit(a, 1); commit(b, 2)` |
//! | one slot (`place`) | the gate that is tested guards all of the slot's words | `fn f(a: Slot, b: Slot)` |
//! | a plain `fn` reaches its slot alone (`place`) | its caller vouches for nothing | `fn f(a: Word) { commit(a, 1) }` |
//! | no slot escapes (`place`) | another CPU never uses this CPU's slot | `commit(slot + 8, x); slot` |
//! | tied to its CPU (`place`) | what only the kernel protects is for one CPU | `prepare_copy(a, b, 4)` without a slot |
//! | offsets fit (`memory`) | one access is one instruction; the gate stays as it is | `load(a + 4)`, `commit(slot, x)` |
//! | prepared words stay hidden (`memory`) | a restart reads nothing that an interrupted attempt left | `let x = load(a); prepare(a, 1)` |
//! | claims (`claims`) | a `cas` happens once, and every way out releases it | `cas(l, 0, 1)` without an abort block |
//!
//! `ranges` answers what two accesses have in common. That is known only where both start from the
//! same register: addresses from different words are the caller's to keep apart. Where an offset or
//! a length is a named constant, a rule becomes an assertion for rustc.

use syn::{Error, Result};

use crate::ir::*;

mod claims;
mod memory;
mod place;
mod ranges;

/// Checks all rules; adds the assertions for rustc to the sequence.
///
/// # Errors
///
/// The first rule that is broken.
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
    place::plain_functions_reach_the_slot_alone(sequence)?;
    place::no_slot_escapes(sequence)?;
    memory::offsets_fit(sequence, &mut assertions)?;
    memory::prepared_words_stay_hidden(sequence, &mut assertions)?;
    place::tied_to_its_cpu(sequence)?;
    sequence.assertions.append(&mut assertions);
    Ok(())
}

/// A sequence with `prepare` or `commit` is restarted, and one with `store` is rolled forward: each
/// word of the two kinds excludes the other.
///
/// Protects against a store that happens twice. In `store(count, load(count) + 1); commit(a, 1)` an
/// interruption before the commit restarts the sequence, which then counts again.
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
                "a visible store in a restartable sequence would be repeated by every restart: \
                 use `prepare` before the commit, or make it the `commit`; or write every store \
                 as `store`, and the sequence is rolled forward instead",
            ),
            StepKind::Cpu { .. } => Error::new(
                step.span,
                "`cpu()` in a sequence with visible stores: only a restart keeps a sequence on its \
                 CPU; use `prepare` and `commit`",
            ),
            _ => continue,
        };
        return Err(error);
    }
    Ok(())
}

/// Whether a sequence only reads, on no CPU's behalf. Rolled forward, it reads all its words at one
/// time, and needs no commit for it.
fn only_reads(sequence: &Sequence) -> bool {
    sequence.slots().next().is_none() && only_loads(sequence)
}

/// Whether a sequence neither stores nor asks for its CPU.
fn only_loads(sequence: &Sequence) -> bool {
    let other = |step: &Step| {
        matches!(
            step.kind,
            StepKind::Store { .. }
                | StepKind::Copy { .. }
                | StepKind::Cpu { .. }
                | StepKind::CompareExchange { .. }
        )
    };
    !sequence.steps.iter().any(other)
}

/// A restarted sequence has one visible store, its last step (B91 2.4).
///
/// Protects against half an effect. Interrupted before the commit, the sequence starts again and
/// has done nothing that others see; interrupted after it, it has ended. A step behind the commit
/// has no place: inside the section a restart would repeat the commit, outside nothing protects the
/// step.
fn one_commit_at_the_end(sequence: &Sequence) -> Result<()> {
    let rolls =
        sequence.compare_exchange().is_none() && sequence.steps.iter().any(Step::is_visible);
    if only_reads(sequence) || rolls {
        return Ok(());
    }
    let Some(commit) = sequence.steps.iter().position(Step::is_commit) else {
        let mut why = String::from(
            "no commit: a restartable sequence ends in one visible store, by `commit`; one that is \
             rolled forward has any number, by `store`",
        );
        if only_loads(sequence) {
            why += "; to only read a word of a slot, use `Area::peek`";
        }
        return Err(Error::new(sequence.name.span(), why));
    };
    let after = &sequence.steps[commit + 1..];
    // The first step behind the commit may compute an address: report the step that uses it.
    let visible = |step: &&Step| !matches!(step.kind, StepKind::Binary { .. });
    let Some(after) = after.iter().find(visible).or(after.first()) else {
        return Ok(());
    };
    let why = match after.kind {
        _ if after.is_commit() => {
            "a second commit: a restart between the two would repeat the first; \
             use `prepare` for all but the last"
        }
        StepKind::Store { .. } | StepKind::Copy { .. } | StepKind::CompareExchange { .. } => {
            "a store after the commit: an interruption in between would lose it; store before the commit"
        }
        StepKind::Exit { .. } => "an early return after the commit: return before it",
        StepKind::Load { .. } => {
            "a load after the commit, where the sequence has ended: load before it, and return the \
             word by its name"
        }
        _ => {
            "a computation after the commit, where the sequence has ended: compute before it, and \
               return the word by its name"
        }
    };
    Err(Error::new(after.span, why))
}
