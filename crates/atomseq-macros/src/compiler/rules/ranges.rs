//! What two steps have in common in memory. If both address it from the same word, their offsets
//! and lengths tell, which the compiler knows of literals and rustc of named constants.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Result};

use super::super::ir::*;
use super::same;

const WORD_BYTES: i64 = 8;

/// A longer copy counts as one of so many words, so that its end is a number. Must agree with
/// `atomseq::generated::check::copied`.
const MAX_COPIED: u64 = 1 << 40;

/// How many bytes a step reads or writes.
#[derive(Clone)]
struct Bytes {
    /// `None` if only rustc knows.
    value: Option<i64>,
    /// An expression of type `u64`.
    tokens: TokenStream,
}

impl Bytes {
    fn literal(bytes: i64) -> Bytes {
        let unsigned = bytes as u64;
        Bytes {
            value: Some(bytes),
            tokens: quote!(#unsigned),
        }
    }

    /// So many words. Must agree with `atomseq::generated::check::copied`. Only rustc knows the
    /// target, and so a number that differs where words have 32 bits.
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

/// What a word is at most, if a constant says so: the word itself, or one that went into it by
/// `min` or `&`.
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
        let least = |a, b| Constant::apply(BinaryOperator::Minimum, &a, &b, step.span);
        let both = [a, b].into_iter();
        if let Some(both) = both.filter_map(|word| bound(&bounds, word)).reduce(least) {
            bounds.insert(*to, both);
        }
    }
    bound(&bounds, word)
}

/// Bytes of memory that a step reads or writes.
pub struct Range {
    pub address: Address,
    /// What is accessed at once.
    pub unit: i64,
    /// How many bytes at least.
    least: Bytes,
    /// How many bytes at most, if that is known.
    most: Option<Bytes>,
}

impl Range {
    fn of(address: &Address, width: Width) -> Range {
        let unit = i64::from(width.bytes());
        Range {
            address: address.clone(),
            unit,
            least: Bytes::literal(unit),
            most: Some(Bytes::literal(unit)),
        }
    }

    fn copied(sequence: &Sequence, register: Register, words: &Operand, span: Span) -> Range {
        let least = match words {
            Operand::Constant(words) => Bytes::copied(words),
            Operand::Register(_) => Bytes::literal(0),
        };
        Range {
            address: sequence.address_of(register, span),
            unit: WORD_BYTES,
            least,
            most: at_most(sequence, words).map(|words| Bytes::copied(&words)),
        }
    }

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

    /// The offset, if it is a literal.
    pub fn literal(&self) -> Option<i64> {
        self.address.offset.value.map(|value| value as i64)
    }

    /// The offsets of two ranges from one address, as far as it matters: of the same offset, it
    /// does not matter which it is.
    fn offsets(&self, other: &Range) -> Option<(i64, i64)> {
        match self.address.key() == other.address.key() {
            true => Some((0, 0)),
            false => self.literal().zip(other.literal()),
        }
    }

    /// Is every byte of `other` one of these?
    pub fn covers(&self, other: &Range, span: Span) -> Answer {
        let (true, Some(most)) = (self.address.base == other.address.base, &other.most) else {
            return Answer::No;
        };
        let known = self.offsets(other).zip(self.least.value.zip(most.value));
        if let Some(((own, others), (least, most))) = known {
            let begins = own <= others;
            return match begins && others.saturating_add(most) <= own.saturating_add(least) {
                true => Answer::Yes,
                false => Answer::No,
            };
        }
        let (a, b) = (&self.address.offset.tokens, &other.address.offset.tokens);
        let (a_bytes, b_bytes) = (&self.least.tokens, &most.tokens);
        Answer::If(
            quote_spanned!(generated(span)=> ::atomseq::generated::check::covers(#a, #a_bytes, #b, #b_bytes)),
        )
    }

    /// The same of addresses that read the same; rustc says whether they are.
    pub fn covers_alike(&self, other: &Range, span: Span, assertions: &mut Vec<Assertion>) -> bool {
        let offset = |range: &Range| Operand::Constant(range.address.offset.clone());
        let most = other.most.as_ref().and_then(|most| most.value);
        let covers = |(least, most): (i64, i64)| least >= most;
        self.address.base == other.address.base
            && self.least.value.zip(most).is_some_and(covers)
            && same(&offset(self), &offset(other), span, assertions)
    }

    /// Have they a byte in common? A range that may have any number of words counts as one word.
    pub fn overlaps(&self, other: &Range, span: Span) -> Answer {
        if self.address.base != other.address.base {
            return Answer::No;
        }
        if self.address.key() == other.address.key() {
            return Answer::Yes;
        }
        let bytes = |range: &Range| {
            let most = range.most.clone();
            most.unwrap_or_else(|| Bytes::literal(WORD_BYTES))
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

/// What is known of two ranges.
pub enum Answer {
    /// No, or nothing is known for it.
    No,
    Yes,
    /// If this holds of named constants.
    If(TokenStream),
}

impl Answer {
    /// Refuses what this is the answer to, unless one of these holds: now, or by rustc.
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
