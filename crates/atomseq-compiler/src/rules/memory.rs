//! The rules about memory: which offsets an access may have, and when prepared words may be read.

use proc_macro2::Span;
use syn::{Error, Result};

use super::ranges::{Answer, Range};
use crate::ir::*;
use crate::message;

/// Offsets that every architecture's loads and stores hold. Must agree with
/// `atomseq::generated::check::reachable`.
const LOWEST_OFFSET: i64 = -256;
const HIGHEST_MULTIPLE: i64 = 4095;

/// An access is one instruction on every architecture, is aligned, and stays in its slot.
///
/// Protects four things. `load(a + 40_000)` would be several instructions on AArch64, where this
/// compiler counts one. `load(a + 4)` may span two cache lines, and then is not atomic.
/// `commit(slot, 0)` would open a gate that another thread has closed. And `commit(slot + 128, 0)`
/// would close or open the gate of the next CPU if the area has no bulk memory. Only the area knows
/// whether it has some, and how much, so a sequence that means it says so: by the name `BULK`.
pub fn offsets_fit(sequence: &Sequence, assertions: &mut Vec<Assertion>) -> Result<()> {
    let slot = sequence.slots().map(|(register, _)| register).next();
    for step in &sequence.steps {
        let is_copy = matches!(step.kind, StepKind::Copy { .. });
        let ranges = [Range::reads(sequence, step), Range::writes(sequence, step)];
        for range in ranges.into_iter().flatten() {
            if !range.address.offset.is_the_same_in_32_bits() {
                return Err(Error::new(step.span, message::WIDTH));
            }
            if slot == Some(range.address.base) {
                match range.is_in_slot(step.span) {
                    Answer::No => return Err(Error::new(step.span, message::IN_SLOT)),
                    Answer::Yes => {}
                    Answer::If(holds) => assertions.push(Assertion {
                        holds,
                        message: message::IN_SLOT,
                        span: step.span,
                    }),
                }
            }
            let Some(offset) = range.literal() else {
                continue;
            };
            // A copy has no offsets: its addresses are computed in full.
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

/// A prepared word is not read before it is prepared, and is not the committed word.
///
/// Protects the next attempt against what an interrupted one left. In
/// `let old = load(a + 8); prepare(a + 8, b); commit(slot + 8, old)` the first attempt may be
/// interrupted after the prepare: then the second commits `b`. And
/// `prepare(slot + 8, a); commit(slot + 8, b)` would show `a` for a moment. After it is prepared, a
/// word holds the same in every attempt and may be read.
pub fn prepared_words_stay_hidden(
    sequence: &Sequence,
    assertions: &mut Vec<Assertion>,
) -> Result<()> {
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
                     visible before the commit; store it once",
                    step.span,
                    assertions,
                )?;
            }
        }
    }
    Ok(())
}

/// What a step reads was prepared before it as a whole, or is not prepared later.
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
    // A copy counts as a later store of its own: a restart begins it anew, with its first word.
    for (_, later) in prepared.iter().filter(|(at, _)| *at >= index) {
        read.overlaps(later, span).refuse(
            &covered,
            "a prepared word is loaded before it is prepared: after a restart it holds what the \
             interrupted attempt left there; prepare another word",
            span,
            assertions,
        )?;
    }
    Ok(())
}
