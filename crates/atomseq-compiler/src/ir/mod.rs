//! The intermediate representation: straight-line steps over words in single-assignment registers,
//! with exits that lead forward and out. Every form is made from this one description.
//!
//! ```text
//! let first = load(slot + 8);            r1 = load [r0 + 8]         r0 is the slot, a parameter
//! if first == 0 { return None }          exit 0 if r1 == 0          exit 0: None
//! let next = load(first);                r2 = load [r1]
//! commit(slot + 8, next);                commit [r0 + 8] = r2
//! Some(first)                            end: Some(r1)
//! ```
//!
//! What the rest of the compiler relies on, and `lower` and `rules` establish:
//!
//! 1. A register is assigned once, by a step before every step that reads it.
//! 2. No step leads backwards: a sequence ends after at most as many steps as it has.
//! 3. The words of an exit are registers that are assigned before the exit, parameters or
//!    constants.
//! 4. An address is a register plus a constant offset. Two addresses with equal keys are equal.
//! 5. There is at most one commit among the steps, and it is the last of them. Only an early return
//!    after a `cas` has a copy of it ([`Exit::commit`]), which is the same store.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::format_ident;
use syn::ext::IdentExt;
use syn::{Attribute, Ident, Visibility};

mod constant;

pub use constant::{Constant, generated};

/// One sequence, as steps.
pub struct Sequence {
    /// What stands before the function.
    pub attributes: Attributes,
    /// Its visibility.
    pub visibility: Visibility,
    /// Where `fn` stands.
    pub keyword: Span,
    /// Its name.
    pub name: Ident,
    /// Its parameters, which are the first registers.
    pub parameters: Vec<Parameter>,
    /// Its result's type.
    pub returns: Returns,
    /// What it does, in order.
    pub steps: Vec<Step>,
    /// Its early returns, in order; a [`StepKind::Exit`] names one by index.
    pub exits: Vec<Exit>,
    /// The result after the commit.
    pub end: Exit,
    /// The result of an interrupted attempt, in a sequence with a `cas`, which is not restarted.
    pub abort: Option<Exit>,
    /// How many registers there are, parameters included.
    pub registers: usize,
    /// The registers that are another register plus a constant. Accesses through them are accesses
    /// at an offset from that other register, so rules can compare them.
    pub sums: HashMap<Register, Address>,
    /// The named constants, each once.
    pub constants: Vec<Named>,
    /// The rules that only rustc can check, because they depend on the values of named constants or
    /// on the width of a word.
    pub assertions: Vec<Assertion>,
}

/// The attributes before a sequence, by where they belong in the generated code:
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
/// The type has the sequence's name, so rustc's lints about a function's name or documentation find
/// the type. `deprecated` is reported where named constants are named, which is one place.
///
/// Lints about use (`dead_code`) are expected on the type alone: to rustc, a form for which
/// `dead_code` is allowed is used, and with it the type, so the expectation would not be met.
#[derive(Default)]
pub struct Attributes {
    /// For the type.
    pub on_type: Vec<Attribute>,
    /// For every other item.
    pub on_rest: Vec<Attribute>,
    /// For the item that names the constants.
    pub on_constants: Vec<Attribute>,
    /// For each form.
    pub must_use: Option<Attribute>,
    /// For each form, instead of `#[inline(always)]`.
    pub inline: Option<Attribute>,
}

impl Attributes {
    /// Whether the sequence is deprecated, and so may use what is.
    pub fn is_deprecated(&self) -> bool {
        let deprecates = |attribute: &Attribute| attribute.path().is_ident("deprecated");
        self.on_type.iter().any(deprecates)
    }
}

/// Returns the name of the type that holds a sequence's named constants. It is not the sequence's
/// own type: assertions about the constants would use that, and rustc could not report a sequence
/// that is never used.
pub fn constants_name(of_sequence: &Ident) -> Ident {
    let span = generated(of_sequence.span());
    format_ident!(
        "__atomseq_constants_of_{}",
        of_sequence.unraw(),
        span = span
    )
}

/// A named constant. rustc evaluates its path in one place, and everything else names that place.
/// So an assertion checks the value that every form uses, even if the path contains a macro that
/// expands to something else each time.
pub struct Named {
    /// The associated constant that holds the value.
    pub place: Ident,
    /// The path as written.
    pub path: TokenStream,
    /// The constant, as steps use it.
    pub constant: Constant,
}

/// A condition on named constants that must hold for the sequence to keep a rule.
pub struct Assertion {
    /// A constant expression of type `bool`.
    pub holds: TokenStream,
    /// What rustc reports if it does not hold.
    pub message: &'static str,
    /// Where rustc reports it.
    pub span: Span,
}

impl Sequence {
    /// Returns the parameters that are slots, with their registers.
    pub fn slots(&self) -> impl Iterator<Item = (Register, &Parameter)> {
        self.parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.is_slot)
            .map(|(index, parameter)| (Register(index), parameter))
    }

    /// Returns the index of the `cas`, if there is one.
    pub fn compare_exchange(&self) -> Option<usize> {
        let is = |step: &Step| matches!(step.kind, StepKind::CompareExchange { .. });
        self.steps.iter().position(is)
    }

    /// Whether an early return passes through the commit.
    pub fn leaves_by_commit(&self) -> bool {
        self.exits.iter().any(|exit| exit.commit.is_some())
    }

    /// Returns a register as an address: the register that it is a sum of, and the constant.
    pub fn address_of(&self, register: Register, span: Span) -> Address {
        self.sums.get(&register).cloned().unwrap_or(Address {
            base: register,
            offset: Constant::literal(0, span),
        })
    }
}

/// A parameter.
pub struct Parameter {
    /// Its name as written.
    pub name: Ident,
    /// Whether it is a `Slot`; otherwise it is a `Word`.
    pub is_slot: bool,
}

/// A word that is assigned once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Register(pub usize);

/// A word that a step reads.
#[derive(Clone)]
pub enum Operand {
    /// A word that was assigned before.
    Register(Register),
    /// A word that is known before the sequence runs.
    Constant(Constant),
}

impl Operand {
    /// Returns the register, if it is one.
    pub fn register(&self) -> Option<Register> {
        match self {
            Operand::Register(register) => Some(*register),
            Operand::Constant(_) => None,
        }
    }

    /// Returns a text that is equal only for equal words.
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
    /// A word that is no sum with a constant itself.
    pub base: Register,
    /// A signed number of bytes.
    pub offset: Constant,
}

impl Address {
    /// Returns a value that is equal only for equal addresses. Addresses with different keys may
    /// still be equal.
    pub fn key(&self) -> (Register, String) {
        (self.base, self.offset.key().to_owned())
    }
}

/// How much memory one access reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// A machine word.
    Word,
    /// 32 bits; loads extend them with zeros, stores drop the rest.
    Half,
}

impl Width {
    /// Returns the number of bytes where words have 64 bits.
    pub fn bytes(self) -> u32 {
        match self {
            Width::Word => 8,
            Width::Half => 4,
        }
    }
}

/// The operators, wrapping and unsigned. Shifts use the count modulo the width of a word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "their names say it")]
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
    /// Whether the order of its operands makes no difference.
    pub fn commutes(self) -> bool {
        !matches!(
            self,
            BinaryOperator::Subtract | BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight
        )
    }
}

/// Unsigned comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Returns the comparison that holds of `(b, a)` when this one holds of `(a, b)`.
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

/// What a store means to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// No other thread or handler reads it before the commit.
    Prepare,
    /// The one visible store, the last step: it makes the prepared words valid.
    Commit,
    /// Visible at once, to loads of the same sequence too. It cannot be repeated by a restart.
    Visible,
}

/// One step.
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// Where it was written.
    pub span: Span,
}

impl Step {
    /// Whether it is the commit.
    pub fn is_commit(&self) -> bool {
        self.stores(StoreKind::Commit)
    }

    /// Whether it stores what no other thread or handler reads before the commit.
    pub fn is_prepare(&self) -> bool {
        self.stores(StoreKind::Prepare) || matches!(self.kind, StepKind::Copy { .. })
    }

    /// Whether it is a visible store other than the commit.
    pub fn is_visible(&self) -> bool {
        self.stores(StoreKind::Visible)
    }

    fn stores(&self, what: StoreKind) -> bool {
        matches!(self.kind, StepKind::Store { kind, .. } if kind == what)
    }
}

/// What a step does. `to` is the register that it assigns, or the address that it stores to.
#[allow(
    missing_docs,
    reason = "the fields are the operands that the variants name"
)]
pub enum StepKind {
    /// Reads memory at `from`.
    Load {
        to: Register,
        from: Address,
        width: Width,
        acquire: bool,
    },
    /// Reads the number of this CPU.
    Cpu { to: Register },
    /// Stores `new` at `at` if the word there is `expected`, by an atomic instruction, and assigns
    /// the word that was there. It acquires, and is visible before the visible stores that follow.
    CompareExchange {
        to: Register,
        at: Address,
        expected: Operand,
        new: Operand,
    },
    /// Computes a word from two.
    Binary {
        to: Register,
        operator: BinaryOperator,
        a: Operand,
        b: Operand,
    },
    /// Leaves by the early return number `exit` if the comparison holds.
    Exit {
        comparison: Comparison,
        a: Operand,
        b: Operand,
        exit: usize,
    },
    /// Writes a word or half of one.
    Store {
        kind: StoreKind,
        to: Address,
        value: Operand,
        width: Width,
        release: bool,
    },
    /// Copies `words` words, in no order that others may rely on; it only ever prepares.
    Copy {
        to: Register,
        from: Register,
        words: Operand,
    },
}

impl StepKind {
    /// Returns the register that this step assigns.
    pub fn defines(&self) -> Option<Register> {
        match self {
            StepKind::Load { to, .. }
            | StepKind::Cpu { to }
            | StepKind::CompareExchange { to, .. }
            | StepKind::Binary { to, .. } => Some(*to),
            StepKind::Exit { .. } | StepKind::Store { .. } | StepKind::Copy { .. } => None,
        }
    }

    /// Returns the address that this step loads from or stores to; a copy has registers instead.
    pub fn address(&self) -> Option<&Address> {
        match self {
            StepKind::Load { from, .. } => Some(from),
            StepKind::Store { to, .. } => Some(to),
            StepKind::CompareExchange { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Returns the registers that this step reads, those of its exit's result aside.
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

/// A way out: an early return, the end, or the abort block.
pub struct Exit {
    /// The words of the result.
    pub result: Vec<Operand>,
    /// What the words stand in.
    pub shape: Shape,
    /// The commit that an early return passes through, which releases what the `cas` has claimed.
    pub commit: Option<Step>,
    /// Where the result was written.
    pub span: Span,
}

impl Exit {
    /// Returns a text that is equal only for equal results.
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
    /// `Some` of the words.
    Some,
    /// `None`.
    None,
    /// `true`.
    True,
    /// `false`.
    False,
}

/// The type of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// `()`.
    Nothing,
    /// `bool`.
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
