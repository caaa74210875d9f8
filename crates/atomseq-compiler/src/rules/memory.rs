//! Memory.

use proc_macro2::Span;
use quote::quote_spanned;
use syn::{Error, Result};

use super::ranges::{Answer, Range};
use crate::ir::*;
use crate::message;

/// A slot begins with its gate; then come its words and its bulk memory, whose size only the area
/// knows. Must agree with `atomseq::percpu::Area` and `atomseq::sequence::check::in_slot`.
const GATE_BYTES: i64 = 8;

/// Offsets that every architecture's loads and stores hold. Must agree with
/// `atomseq::sequence::check::reachable`.
const LOWEST_OFFSET: i64 = -256;
const HIGHEST_MULTIPLE: i64 = 4095;

/// An access at a literal offset is one instruction everywhere, and leaves the gate alone.
pub fn offsets_fit(sequence: &Sequence, assertions: &mut Vec<Assertion>) -> Result<()> {
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
                        holds: quote_spanned!(generated(step.span)=> ::atomseq::sequence::check::in_slot(#offset)),
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
