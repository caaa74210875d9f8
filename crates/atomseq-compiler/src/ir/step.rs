//! The steps: what each does, which words it reads, and which it assigns.

use proc_macro2::Span;

use super::Constant;

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

    /// Returns the value, if it is a literal.
    pub fn literal(&self) -> Option<u64> {
        match self {
            Operand::Register(_) => None,
            Operand::Constant(constant) => constant.value,
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
    Maximum,
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
