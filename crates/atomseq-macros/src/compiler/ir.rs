//! The intermediate representation: straight-line steps over words in single-assignment
//! registers, with exits that only lead forward and out.
//!
//! Every form is made from this one description. `Store` with `Kind::Visible`, an interlocked
//! compare-and-swap and an abort block have their place as further steps; each comes with its
//! emitters, its model and its rejection test.

use proc_macro2::{Span, TokenStream};
use syn::{Attribute, Ident, Visibility};

/// One sequence, lowered.
pub struct Sequence {
    pub attributes: Vec<Attribute>,
    pub visibility: Visibility,
    pub name: Ident,
    pub parameters: Vec<Parameter>,
    pub returns: Returns,
    pub steps: Vec<Step>,
    /// Where early returns leave, in order; a `StepKind::Exit` names one by index.
    pub exits: Vec<Exit>,
    /// The result after the commit.
    pub result: Vec<Operand>,
    pub shape: Shape,
    /// How many registers there are; the parameters are the first of them.
    pub registers: usize,
}

impl Sequence {
    /// The parameters that are slots, with their register.
    pub fn slots(&self) -> impl Iterator<Item = (Register, &Parameter)> {
        self.parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.is_slot)
            .map(|(index, parameter)| (Register(index), parameter))
    }

    /// Does any step read the CPU number?
    pub fn reads_cpu(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.kind, StepKind::Cpu { .. }))
    }
}

pub struct Parameter {
    pub name: Ident,
    pub is_slot: bool,
}

/// A word that is assigned once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Register(pub usize);

/// A register or a constant.
#[derive(Clone)]
pub enum Operand {
    Register(Register),
    Constant(Constant),
}

impl Operand {
    pub fn register(&self) -> Option<Register> {
        match self {
            Operand::Register(register) => Some(*register),
            Operand::Constant(_) => None,
        }
    }
}

/// A constant: a literal, whose value the compiler knows, or an expression over named constants,
/// which rustc evaluates.
#[derive(Clone)]
pub struct Constant {
    pub value: Option<u64>,
    /// An expression of type `usize`.
    pub tokens: TokenStream,
    pub span: Span,
}

/// `base + offset`.
#[derive(Clone)]
pub struct Address {
    pub base: Register,
    pub offset: Constant,
}

impl Address {
    /// Equal keys mean equal addresses; different keys may still alias.
    pub fn key(&self) -> (Register, String) {
        (self.base, self.offset.key())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    Word,
    Half,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Minimum,
}

impl BinaryOperator {
    pub fn commutes(self) -> bool {
        !matches!(
            self,
            BinaryOperator::Subtract | BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight
        )
    }
}

/// Unsigned comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison that holds of `(b, a)` when this one holds of `(a, b)`.
    pub fn swapped(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::Equal,
            Comparison::NotEqual => Comparison::NotEqual,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// Nobody may see it before the commit.
    Prepare,
    /// The one visible store, the last step.
    Commit,
}

pub struct Step {
    pub kind: StepKind,
    pub span: Span,
}

pub enum StepKind {
    Load {
        to: Register,
        from: Address,
        width: Width,
        acquire: bool,
    },
    Cpu {
        to: Register,
    },
    Binary {
        to: Register,
        operator: BinaryOperator,
        a: Operand,
        b: Operand,
    },
    /// Leaves by `exit` if the comparison holds.
    Exit {
        comparison: Comparison,
        a: Operand,
        b: Operand,
        exit: usize,
    },
    Store {
        kind: StoreKind,
        to: Address,
        value: Operand,
        width: Width,
        release: bool,
    },
    /// Copies `words` words; only ever prepares.
    Copy {
        to: Operand,
        from: Operand,
        words: Operand,
    },
}

impl StepKind {
    /// The register this step assigns.
    pub fn defines(&self) -> Option<Register> {
        match self {
            StepKind::Load { to, .. } | StepKind::Cpu { to } | StepKind::Binary { to, .. } => {
                Some(*to)
            }
            StepKind::Exit { .. } | StepKind::Store { .. } | StepKind::Copy { .. } => None,
        }
    }

    /// The registers this step reads, those of its exit's result aside.
    pub fn uses(&self) -> Vec<Register> {
        let operands = |operands: &[&Operand]| {
            operands
                .iter()
                .filter_map(|operand| operand.register())
                .collect::<Vec<_>>()
        };
        match self {
            StepKind::Load { from, .. } => vec![from.base],
            StepKind::Cpu { .. } => vec![],
            StepKind::Binary { a, b, .. } | StepKind::Exit { a, b, .. } => operands(&[a, b]),
            StepKind::Store { to, value, .. } => {
                let mut registers = vec![to.base];
                registers.extend(value.register());
                registers
            }
            StepKind::Copy { to, from, words } => operands(&[to, from, words]),
        }
    }
}

/// Where an early return leaves, and with what.
pub struct Exit {
    pub result: Vec<Operand>,
    pub shape: Shape,
}

/// What the caller sees of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The words themselves.
    Plain,
    Some,
    None,
    True,
    False,
}

/// What a sequence returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    Nothing,
    Bool,
    /// 1 or 2 words.
    Words(usize),
    /// An option of 1 or 2 words.
    OptionWords(usize),
}

impl Constant {
    pub fn literal(value: u64, span: Span) -> Constant {
        let literal = proc_macro2::Literal::u64_unsuffixed(value);
        Constant {
            value: Some(value),
            tokens: quote::quote_spanned!(span=> (#literal as usize)),
            span,
        }
    }

    pub fn named(tokens: TokenStream, span: Span) -> Constant {
        Constant {
            value: None,
            tokens: quote::quote_spanned!(span=> (#tokens as usize)),
            span,
        }
    }

    /// Applies an operator; literals are folded here, names by rustc.
    pub fn apply(operator: BinaryOperator, a: &Constant, b: &Constant, span: Span) -> Constant {
        use BinaryOperator::*;
        if let (Some(a), Some(b)) = (a.value, b.value) {
            let value = match operator {
                Add => a.wrapping_add(b),
                Subtract => a.wrapping_sub(b),
                Multiply => a.wrapping_mul(b),
                And => a & b,
                Or => a | b,
                Xor => a ^ b,
                ShiftLeft => a.wrapping_shl(b as u32),
                ShiftRight => a.wrapping_shr(b as u32),
                Minimum => a.min(b),
            };
            return Constant::literal(value, span);
        }
        if b.value == Some(0) && matches!(operator, Add | Subtract) {
            return a.clone();
        }
        if a.value == Some(0) && operator == Add {
            return b.clone();
        }
        let (x, y) = (&a.tokens, &b.tokens);
        let tokens = match operator {
            Add => quote::quote_spanned!(span=> #x.wrapping_add(#y)),
            Subtract => quote::quote_spanned!(span=> #x.wrapping_sub(#y)),
            Multiply => quote::quote_spanned!(span=> #x.wrapping_mul(#y)),
            And => quote::quote_spanned!(span=> (#x & #y)),
            Or => quote::quote_spanned!(span=> (#x | #y)),
            Xor => quote::quote_spanned!(span=> (#x ^ #y)),
            ShiftLeft => quote::quote_spanned!(span=> #x.wrapping_shl(#y as u32)),
            ShiftRight => quote::quote_spanned!(span=> #x.wrapping_shr(#y as u32)),
            Minimum => quote::quote_spanned!(span=> if #x < #y { #x } else { #y }),
        };
        Constant {
            value: None,
            tokens: quote::quote_spanned!(span=> (#tokens)),
            span,
        }
    }

    pub fn key(&self) -> String {
        match self.value {
            Some(value) => value.to_string(),
            None => self.tokens.to_string(),
        }
    }
}
