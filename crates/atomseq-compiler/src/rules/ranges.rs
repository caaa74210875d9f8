//! What two steps have in common in memory. If both start from the same word, their offsets and
//! lengths decide. The compiler knows those of literals; for named constants the answer is a
//! condition that rustc evaluates.
//!
//! The answers are conservative in one direction: `covers` says yes only of what is certain,
//! because it permits a load, and `overlaps` says yes of what is possible, because it refuses one.
//! A copy of an unknown number of words is the exception. It counts as one word, and its caller
//! keeps the rest apart.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Result};

use crate::ir::*;
use crate::message;

const WORD_BYTES: i64 = 8;

/// A longer copy counts as one of so many words, so that no sum of bytes overflows. Must agree with
/// `atomseq::generated::check::copied`.
const MAX_COPIED: u64 = 1 << 40;

/// The words of a slot, behind its gate. Must agree with `atomseq::percpu::Area` and
/// `atomseq::generated::check::in_slot`.
const SLOT: std::ops::Range<i64> = 8..128;

/// A number of bytes.
#[derive(Clone)]
struct Bytes {
    /// `None` if only rustc knows.
    value: Option<i64>,
    /// An expression of type `u64`.
    tokens: TokenStream,
}

impl Bytes {
    /// Returns a number that is known.
    fn literal(bytes: i64) -> Bytes {
        let unsigned = bytes as u64;
        Bytes {
            value: Some(bytes),
            tokens: quote!(#unsigned),
        }
    }

    /// Returns the bytes of so many words. Must agree with `atomseq::generated::check::copied`. A
    /// number that differs where words have 32 bits is left to rustc, which knows the target.
    fn copied(words: &Constant) -> Bytes {
        match words.value {
            Some(value) if words.is_the_same_in_32_bits() => {
                Bytes::literal(8 * value.min(MAX_COPIED) as i64)
            }
            _ => {
                let (words, at) = (&words.tokens, generated(words.span));
                Bytes {
                    value: None,
                    tokens: quote_spanned!(at=> ::atomseq::generated::check::copied(#words)),
                }
            }
        }
    }
}

/// Returns a constant that a word does not exceed, if there is one: the word itself, or an operand
/// that went into it by `min` or `&`.
fn at_most(sequence: &Sequence, word: &Operand) -> Option<Constant> {
    let mut bounds: HashMap<Register, Constant> = HashMap::new();
    let bound = |bounds: &HashMap<Register, Constant>, word: &Operand| match word {
        Operand::Constant(constant) => Some(constant.clone()),
        Operand::Register(register) => bounds.get(register).cloned(),
    };
    for step in &sequence.steps {
        let StepKind::Binary {
            to,
            operator: BinaryOperator::Minimum | BinaryOperator::And,
            a,
            b,
        } = &step.kind
        else {
            continue;
        };
        let min = |a, b| Constant::apply(BinaryOperator::Minimum, &a, &b, step.span);
        let both = [a, b].into_iter();
        if let Some(both) = both.filter_map(|word| bound(&bounds, word)).reduce(min) {
            bounds.insert(*to, both);
        }
    }
    bound(&bounds, word)
}

/// The memory that a step reads or writes.
pub struct Range {
    /// Where it begins.
    pub address: Address,
    /// How many bytes one access reaches.
    pub unit: i64,
    /// How many bytes at least.
    min: Bytes,
    /// How many bytes at most, if that is known.
    max: Option<Bytes>,
}

impl Range {
    /// One access.
    fn of(address: &Address, width: Width) -> Range {
        let unit = i64::from(width.bytes());
        Range {
            address: address.clone(),
            unit,
            min: Bytes::literal(unit),
            max: Some(Bytes::literal(unit)),
        }
    }

    /// One side of a copy.
    fn copied(sequence: &Sequence, register: Register, words: &Operand, span: Span) -> Range {
        let min = match words {
            Operand::Constant(words) => Bytes::copied(words),
            Operand::Register(_) => Bytes::literal(0),
        };
        Range {
            address: sequence.address_of(register, span),
            unit: WORD_BYTES,
            min,
            max: at_most(sequence, words).map(|words| Bytes::copied(&words)),
        }
    }

    /// Returns what a step reads.
    pub fn reads(sequence: &Sequence, step: &Step) -> Option<Range> {
        match &step.kind {
            StepKind::Load { from, width, .. } => Some(Range::of(from, *width)),
            StepKind::CompareExchange { at, .. } => Some(Range::of(at, Width::Word)),
            StepKind::Copy { from, words, .. } => {
                Some(Range::copied(sequence, *from, words, step.span))
            }
            _ => None,
        }
    }

    /// Returns what a step writes.
    pub fn writes(sequence: &Sequence, step: &Step) -> Option<Range> {
        match &step.kind {
            StepKind::Store { to, width, .. } => Some(Range::of(to, *width)),
            StepKind::CompareExchange { at, .. } => Some(Range::of(at, Width::Word)),
            StepKind::Copy { to, words, .. } => {
                Some(Range::copied(sequence, *to, words, step.span))
            }
            _ => None,
        }
    }

    /// Returns the offset, if it is a literal.
    pub fn literal(&self) -> Option<i64> {
        self.address.offset.value.map(|value| value as i64)
    }

    /// Whether it lies among the words of the slot that it starts from: all that may be accessed,
    /// as far as that is known. With an offset that names `BULK`, it lies anywhere behind the gate.
    pub fn is_in_slot(&self, span: Span) -> Answer {
        let offset = &self.address.offset;
        let bytes = self.max.as_ref().unwrap_or(&self.min);
        let known = self.literal().zip(bytes.value);
        if let Some((first, bytes)) = known.filter(|_| !offset.names_bulk) {
            let inside = first >= SLOT.start && first.saturating_add(bytes) <= SLOT.end;
            return if inside { Answer::Yes } else { Answer::No };
        }
        let (names_bulk, offset, bytes) = (offset.names_bulk, &offset.tokens, &bytes.tokens);
        Answer::If(
            quote_spanned!(generated(span)=> ::atomseq::generated::check::in_slot(#offset, #bytes, #names_bulk)),
        )
    }

    /// Returns the offsets of two ranges from one base, if their difference is known. Of equal
    /// offsets it is, whatever they are.
    fn offsets(&self, other: &Range) -> Option<(i64, i64)> {
        match self.address.key() == other.address.key() {
            true => Some((0, 0)),
            false => self.literal().zip(other.literal()),
        }
    }

    /// Whether every byte of `other` is certainly one of these.
    pub fn covers(&self, other: &Range, span: Span) -> Answer {
        let (true, Some(max)) = (self.address.base == other.address.base, &other.max) else {
            return Answer::No;
        };
        let known = self.offsets(other).zip(self.min.value.zip(max.value));
        if let Some(((own, others), (min, max))) = known {
            let begins = own <= others;
            return match begins && others.saturating_add(max) <= own.saturating_add(min) {
                true => Answer::Yes,
                false => Answer::No,
            };
        }
        let (a, b) = (&self.address.offset.tokens, &other.address.offset.tokens);
        let (a_bytes, b_bytes) = (&self.min.tokens, &max.tokens);
        Answer::If(
            quote_spanned!(generated(span)=> ::atomseq::generated::check::covers(#a, #a_bytes, #b, #b_bytes)),
        )
    }

    /// Whether this holds of addresses that read the same; adds the assertion that they are equal.
    pub fn covers_alike(&self, other: &Range, span: Span, assertions: &mut Vec<Assertion>) -> bool {
        let offset = |range: &Range| Operand::Constant(range.address.offset.clone());
        let max = other.max.as_ref().and_then(|max| max.value);
        let covers = |(min, max): (i64, i64)| min >= max;
        self.address.base == other.address.base
            && self.min.value.zip(max).is_some_and(covers)
            && same(&offset(self), &offset(other), span, assertions)
    }

    /// Whether the two may have a byte in common. A range of an unknown number of words counts as
    /// one.
    pub fn overlaps(&self, other: &Range, span: Span) -> Answer {
        if self.address.base != other.address.base {
            return Answer::No;
        }
        if self.address.key() == other.address.key() {
            return Answer::Yes;
        }
        let bytes = |range: &Range| {
            let max = range.max.clone();
            max.unwrap_or_else(|| Bytes::literal(WORD_BYTES))
        };
        let (own_bytes, other_bytes) = (bytes(self), bytes(other));
        let lengths = own_bytes.value.zip(other_bytes.value);
        if let Some(((own, others), (own_bytes, other_bytes))) = self.offsets(other).zip(lengths) {
            let apart = own.saturating_add(own_bytes) <= others
                || others.saturating_add(other_bytes) <= own;
            return if apart { Answer::No } else { Answer::Yes };
        }
        let (a, b) = (&self.address.offset.tokens, &other.address.offset.tokens);
        let (a_bytes, b_bytes) = (&own_bytes.tokens, &other_bytes.tokens);
        Answer::If(
            quote_spanned!(generated(span)=> ::atomseq::generated::check::overlap(#a, #a_bytes, #b, #b_bytes)),
        )
    }
}

/// What is known about two ranges.
pub enum Answer {
    /// No, as far as the compiler is asked to know.
    No,
    /// Yes.
    Yes,
    /// If this expression over named constants holds.
    If(TokenStream),
}

impl Answer {
    /// Refuses a sequence of which this is true: now, or by an assertion. `unless` are expressions
    /// of which one suffices to accept it.
    pub fn refuse(
        self,
        unless: &[TokenStream],
        message: &'static str,
        span: Span,
        assertions: &mut Vec<Assertion>,
    ) -> Result<()> {
        let at = generated(span);
        let holds = match self {
            Answer::No => return Ok(()),
            Answer::Yes if unless.is_empty() => return Err(Error::new(span, message)),
            Answer::Yes => quote_spanned!(at=> #(#unless)||*),
            Answer::If(overlaps) => quote_spanned!(at=> !#overlaps #(|| #unless)*),
        };
        assertions.push(Assertion {
            holds,
            message,
            span,
        });
        Ok(())
    }
}

/// Whether both are the same word. Of constants that read the same, an assertion says that they
/// are.
pub fn same(a: &Operand, b: &Operand, span: Span, assertions: &mut Vec<Assertion>) -> bool {
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
