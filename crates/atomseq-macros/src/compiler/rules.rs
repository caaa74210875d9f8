//! The rules of sequences, checked on the intermediate representation: visible stores alone, or one
//! commit, last; no slot escapes; accesses stay inside the slot; nothing prepared is read too
//! early or seen twice; what asks for its CPU is tied to it. Those of a `cas` are in `claims`.
//!
//! What two addresses have in common is known when they start from the same register: then their
//! offsets and lengths tell. If one of these is a named constant, the rule becomes an assertion for
//! rustc.

use std::collections::HashSet;

use proc_macro2::Span;
use quote::quote_spanned;
use syn::{Error, Result};

use super::ir::*;

mod claims;
mod ranges;

use ranges::{Answer, Range};

/// A slot begins with its gate; then come its words and its bulk memory, whose size only the area
/// knows. Must agree with `atomseq::percpu::Area` and `atomseq::generated::check::in_slot`.
const GATE_BYTES: i64 = 8;

/// Offsets that every architecture's loads and stores hold. Must agree with
/// `atomseq::generated::check::reachable`.
const LOWEST_OFFSET: i64 = -256;
const HIGHEST_MULTIPLE: i64 = 4095;

/// What a constant is told, whether it is a literal or rustc finds it out.
pub mod message {
    pub const IMMEDIATE: &str = "a named constant in a sequence is at most 65,535";
    pub const MULTIPLE: &str =
        "an offset is a multiple of what is loaded or stored; take a tag off with `^`";
    pub const REACHABLE: &str = "an offset is at least -256 and at most 4,095 times what is \
                                 loaded or stored; pass a larger one as a parameter";
    pub const FITS: &str = "a literal in a sequence fits a word of the target";
    pub const WIDTH: &str =
        "an offset is the same whether words have 32 bits or 64; pass another one as a parameter";
    pub const ALIKE: &str = "two constants here read the same and differ, for their paths begin at different crates or \
         hold what depends on its place; use one `const` for both";
    pub const IN_SLOT: &str =
        "outside the slot's words: they begin at the offset 8, after the gate";
}

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
    one_slot(sequence)?;
    no_slot_escapes(sequence)?;
    offsets_fit(sequence, &mut assertions)?;
    prepared_words_stay_hidden(sequence, &mut assertions)?;
    tied_to_its_cpu(sequence)?;
    sequence.assertions.append(&mut assertions);
    Ok(())
}

/// Are both the same word? Of constants that read the same, rustc says whether they are.
fn same(a: &Operand, b: &Operand, span: Span, assertions: &mut Vec<Assertion>) -> bool {
    if a.key() == b.key() {
        return true;
    }
    let (Operand::Constant(a), Operand::Constant(b)) = (a, b) else {
        return false;
    };
    let alike = a.reads_like(b);
    if alike {
        let (a, b) = (&a.tokens, &b.tokens);
        assertions.push(Assertion {
            holds: quote_spanned!(generated(span)=> #a == #b),
            message: message::ALIKE,
            span,
        });
    }
    alike
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

fn one_slot(sequence: &Sequence) -> Result<()> {
    match sequence.slots().nth(1) {
        None => Ok(()),
        Some((_, second)) => Err(Error::new(
            second.name.span(),
            "a second Slot: a sequence tests one gate, that of the one slot it works on",
        )),
    }
}

/// An address of one CPU's slot is of no use on another CPU, where the caller may already be.
fn no_slot_escapes(sequence: &Sequence) -> Result<()> {
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

/// An access at a literal offset is one instruction everywhere, and leaves the gate alone.
fn offsets_fit(sequence: &Sequence, assertions: &mut Vec<Assertion>) -> Result<()> {
    let slot = sequence.slots().map(|(register, _)| register).next();
    for step in &sequence.steps {
        let is_copy = matches!(step.kind, StepKind::Copy { .. });
        let ranges = [Range::reads(sequence, step), Range::writes(sequence, step)];
        for range in ranges.into_iter().flatten() {
            if !range.address.offset.is_the_same_in_32_bits() {
                return Err(Error::new(step.span, message::WIDTH));
            }
            let Some(offset) = range.literal() else {
                if slot == Some(range.address.base) {
                    let offset = &range.address.offset.tokens;
                    assertions.push(Assertion {
                        holds: quote_spanned!(generated(step.span)=> ::atomseq::generated::check::in_slot(#offset)),
                        message: message::IN_SLOT,
                        span: step.span,
                    });
                }
                continue;
            };
            if slot == Some(range.address.base) && offset < GATE_BYTES {
                return Err(Error::new(step.span, message::IN_SLOT));
            }
            // A copy's addresses are computed in full.
            if is_copy {
                continue;
            }
            if offset % range.unit != 0 {
                return Err(Error::new(step.span, message::MULTIPLE));
            }
            if !(LOWEST_OFFSET..=HIGHEST_MULTIPLE * range.unit).contains(&offset) {
                return Err(Error::new(step.span, message::REACHABLE));
            }
        }
    }
    Ok(())
}

/// What an interrupted attempt prepared is garbage to the next one, and to everybody else until
/// the commit.
fn prepared_words_stay_hidden(sequence: &Sequence, assertions: &mut Vec<Assertion>) -> Result<()> {
    let prepared: Vec<(usize, Range)> = sequence
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.is_prepare())
        .filter_map(|(index, step)| Some((index, Range::writes(sequence, step)?)))
        .collect();
    for (index, step) in sequence.steps.iter().enumerate() {
        if let Some(read) = Range::reads(sequence, step) {
            loaded_after_it_is_prepared(&read, (index, step.span), &prepared, assertions)?;
        }
        if step.is_commit() {
            let committed = Range::writes(sequence, step).expect("a commit is a store");
            for (_, range) in &prepared {
                committed.overlaps(range, step.span).refuse(
                    &[],
                    "the committed word is prepared as well: the first of the two stores would be \
                     visible before the commit",
                    step.span,
                    assertions,
                )?;
            }
        }
    }
    Ok(())
}

/// What a step reads was prepared before, or is not prepared later.
fn loaded_after_it_is_prepared(
    read: &Range,
    (index, span): (usize, Span),
    prepared: &[(usize, Range)],
    assertions: &mut Vec<Assertion>,
) -> Result<()> {
    let before = || prepared.iter().filter(|(at, _)| *at < index);
    let mut covered = Vec::new();
    for (_, range) in before() {
        match range.covers(read, span) {
            Answer::No => {}
            Answer::Yes => return Ok(()),
            Answer::If(holds) => covered.push(holds),
        }
    }
    if before().any(|(_, range)| range.covers_alike(read, span, assertions)) {
        return Ok(());
    }
    // A copy counts among its own later stores: it starts again from its first word.
    for (_, later) in prepared.iter().filter(|(at, _)| *at >= index) {
        read.overlaps(later, span).refuse(
            &covered,
            "a prepared word is loaded before it is prepared: after a restart it holds what an \
             earlier attempt left there",
            span,
            assertions,
        )?;
    }
    Ok(())
}

/// A slot is found by the CPU's number. Without one, that number must decide something, or not be
/// asked for: then only this thread's handlers are kept out.
fn tied_to_its_cpu(sequence: &Sequence) -> Result<()> {
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
