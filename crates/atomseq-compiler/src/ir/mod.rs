//! The intermediate representation: straight-line steps over words in single-assignment
//! registers, with exits that only lead forward and out.
//!
//! Every form is made from this one description. A sequence with an interlocked compare-and-swap
//! cannot start again once that has happened: it is attempted once, and says in its abort block
//! what its caller is told after an interruption.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Attribute, Ident, Visibility};

mod constant;

pub use constant::{Constant, generated};

/// One sequence, lowered.
pub struct Sequence {
    pub attributes: Attributes,
    pub visibility: Visibility,
    /// Where `fn` stands.
    pub keyword: Span,
    pub name: Ident,
    pub parameters: Vec<Parameter>,
    pub returns: Returns,
    pub steps: Vec<Step>,
    /// Where early returns leave, in order; a `StepKind::Exit` names one by index.
    pub exits: Vec<Exit>,
    /// The result after the commit.
    pub end: Exit,
    /// What is returned after an interruption, if that does not start the sequence again.
    pub abort: Option<Exit>,
    /// How many registers there are; the parameters are the first of them.
    pub registers: usize,
    /// Registers known to be another register plus a constant.
    pub sums: HashMap<Register, Address>,
    /// The named constants, each once.
    pub constants: Vec<Named>,
    /// What only rustc can check, for it takes the values of named constants, or the width of a
    /// word.
    pub assertions: Vec<Assertion>,
}

/// What stands before a sequence, by where it belongs in what the macro makes.
///
/// ```text
///                               the type    all else    where constants are named    each form
/// doc, deprecated               as given
/// cfg, allow, warn, deny        as given    as given
/// expect(deprecated)                                    as given
/// expect(another lint)          as given    allow
/// must_use, inline                                                                   as given
/// ```
///
/// The type has the sequence's name: what rustc says of a function's name, it says of the type.
/// `deprecated` is said of the named constants, all of which are named in one place. Whether the
/// type is used, only the type is asked: to rustc, a form for which `dead_code` is allowed is used,
/// and so is the type then. So what is expected of the type is not allowed elsewhere if it is that.
#[derive(Default)]
pub struct Attributes {
    pub on_type: Vec<Attribute>,
    pub on_rest: Vec<Attribute>,
    pub on_constants: Vec<Attribute>,
    pub must_use: Option<Attribute>,
    /// The caller's, in place of what the forms have by themselves.
    pub inline: Option<Attribute>,
}

impl Attributes {
    pub fn is_deprecated(&self) -> bool {
        let deprecates = |attribute: &Attribute| attribute.path().is_ident("deprecated");
        self.on_type.iter().any(deprecates)
    }
}

/// The name of the type that holds a sequence's named constants. It is not the sequence's own type,
/// for rustc is to say that a sequence is never used, and what asserts something about its
/// constants would use it.
pub fn constants_name(of_sequence: &Ident) -> Ident {
    let span = generated(of_sequence.span());
    format_ident!(
        "__atomseq_constants_of_{}",
        of_sequence.unraw(),
        span = span
    )
}

/// A named constant. rustc evaluates its path in one place, and everything else names that place:
/// so what an assertion has checked is what every form uses, even if the path has a macro in it
/// that expands to something else each time.
pub struct Named {
    /// The associated constant that holds the value.
    pub place: Ident,
    /// The path.
    pub path: TokenStream,
    pub constant: Constant,
}

/// A condition on named constants that must hold for the sequence to keep a rule.
pub struct Assertion {
    /// A constant expression of type `bool`.
    pub holds: TokenStream,
    pub message: &'static str,
    pub span: Span,
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

    /// Where the interlocked step is, if there is one.
    pub fn compare_exchange(&self) -> Option<usize> {
        let is = |step: &Step| matches!(step.kind, StepKind::CompareExchange { .. });
        self.steps.iter().position(is)
    }

    /// Is there an early return that passes through the commit?
    pub fn leaves_by_commit(&self) -> bool {
        self.exits.iter().any(|exit| exit.commit.is_some())
    }

    /// What a register is as an address: the register it is a sum of, and what was added.
    pub fn address_of(&self, register: Register, span: Span) -> Address {
        self.sums.get(&register).cloned().unwrap_or(Address {
            base: register,
            offset: Constant::literal(0, span),
        })
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

    /// Equal keys mean equal words.
    pub fn key(&self) -> String {
        match self {
            Operand::Register(register) => format!("{register:?}"),
            Operand::Constant(constant) => constant.key().to_owned(),
        }
    }
}

/// `base + offset`.
#[derive(Clone)]
pub struct Address {
    pub base: Register,
    pub offset: Constant,
}

impl Address {
    /// Equal keys mean equal addresses; different keys may still mean the same address.
    pub fn key(&self) -> (Register, String) {
        (self.base, self.offset.key().to_owned())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    Word,
    Half,
}

impl Width {
    pub fn bytes(self) -> u32 {
        match self {
            Width::Word => 8,
            Width::Half => 4,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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
    /// Seen at once, by loads of the same sequence too; it cannot be repeated.
    Visible,
}

pub struct Step {
    pub kind: StepKind,
    pub span: Span,
}

impl Step {
    pub fn is_commit(&self) -> bool {
        self.stores(StoreKind::Commit)
    }

    /// Is it seen by nobody before the commit?
    pub fn is_prepare(&self) -> bool {
        self.stores(StoreKind::Prepare) || matches!(self.kind, StepKind::Copy { .. })
    }

    pub fn is_visible(&self) -> bool {
        self.stores(StoreKind::Visible)
    }

    fn stores(&self, what: StoreKind) -> bool {
        matches!(self.kind, StepKind::Store { kind, .. } if kind == what)
    }
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
    /// Stores `new` if the word is `expected`, with an interlocked instruction. Acquires, and is
    /// visible before the visible stores that follow.
    CompareExchange {
        /// The word that was there.
        to: Register,
        at: Address,
        expected: Operand,
        new: Operand,
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
        to: Register,
        from: Register,
        words: Operand,
    },
}

impl StepKind {
    /// The register this step assigns.
    pub fn defines(&self) -> Option<Register> {
        match self {
            StepKind::Load { to, .. }
            | StepKind::Cpu { to }
            | StepKind::CompareExchange { to, .. }
            | StepKind::Binary { to, .. } => Some(*to),
            StepKind::Exit { .. } | StepKind::Store { .. } | StepKind::Copy { .. } => None,
        }
    }

    /// The address this step loads from or stores to.
    pub fn address(&self) -> Option<&Address> {
        match self {
            StepKind::Load { from, .. } => Some(from),
            StepKind::Store { to, .. } => Some(to),
            StepKind::CompareExchange { at, .. } => Some(at),
            _ => None,
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
            StepKind::CompareExchange {
                at, expected, new, ..
            } => {
                let mut registers = vec![at.base];
                registers.extend(operands(&[expected, new]));
                registers
            }
            StepKind::Binary { a, b, .. } | StepKind::Exit { a, b, .. } => operands(&[a, b]),
            StepKind::Store { to, value, .. } => {
                let mut registers = vec![to.base];
                registers.extend(value.register());
                registers
            }
            StepKind::Copy { to, from, words } => {
                let mut registers = vec![*to, *from];
                registers.extend(words.register());
                registers
            }
        }
    }
}

/// Where control leaves, and with what.
pub struct Exit {
    pub result: Vec<Operand>,
    pub shape: Shape,
    /// The commit it passes through, if any.
    pub commit: Option<Step>,
    /// The result as written.
    pub span: Span,
}

impl Exit {
    /// Equal keys mean equal results, of words that do not depend on when they are looked at.
    pub fn key(&self) -> String {
        let words: Vec<String> = self.result.iter().map(Operand::key).collect();
        format!("{:?} {words:?}", self.shape)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swapped_comparison_says_the_same() {
        use Comparison::*;
        for comparison in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
            assert_eq!(comparison.swapped().swapped(), comparison);
        }
        assert_eq!(Less.swapped(), Greater);
        assert_eq!(GreaterOrEqual.swapped(), LessOrEqual);
    }
}
