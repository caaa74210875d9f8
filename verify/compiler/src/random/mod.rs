//! Random sequences that keep every rule, from a seed.
//!
//! Shared by `build.rs`, which writes them as `sequence!` for rustc, and by the tests, which make
//! the same ones again and know from their syntax what they must do. Memory is cut by use, so that
//! any mixture keeps the rules: some words are only read, some only prepared, some only committed.
//! Sequences with visible stores read and store wherever they like. Those around one copy do so,
//! too, and those that break a rule thereby are told from those that do not.
//!
//! ```text
//! slot   8 … 47 read      48 … 87 prepared     88 … 111 committed    112 the bulk's address
//! bulk   0 … 191 read    192 … 383 prepared   384 … 447 committed    448 … 511 untouched
//! ```

mod copies;
mod generate;
mod text;
mod used;
mod words;

pub use generate::generate;

/// A sequence that breaks a rule: what a copy reads or prepares is among the words that it loads,
/// prepares or commits.
pub fn break_a_rule(seed: u64) -> Program {
    copies::generate(seed, false)
}

/// Where a slot holds the address of its bulk memory.
pub const BULK_ADDRESS: u64 = 112;

/// The named constants sequences use. The first is at most an immediate, the last an offset only,
/// the others both.
pub const CONSTANTS: &[(&str, u64)] = &[
    ("LARGEST", 65_535),
    ("NONE", 0),
    ("TWO", 2),
    ("EIGHT", 8),
    ("FORTY", 40),
    ("BACK", 8u64.wrapping_neg()),
];

/// The one that is negative, and so no word.
pub const BACK: usize = CONSTANTS.len() - 1;

/// Parameters are called what the generated code might call something itself.
const NAMES: &[&str] = &[
    "__atomseq_status",
    "__atomseq_restarts",
    "__atomseq_t0",
    "__atomseq_r1",
    "__atomseq_given",
    "a0",
    "c0",
    "rseq",
    "closed",
    "aborted",
    "exit0",
    "status",
    "again",
    "gated",
    "held",
    "word",
    "r#in",
];

/// What a sequence is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Its CPU: it has a commit, and a slot, or else it asks for its CPU. Most have the forms
    /// against signal handlers as well.
    OnCpu,
    /// Its thread's signal handlers, with a commit.
    Committing,
    /// The same, with visible stores.
    Storing,
    /// Its CPU, with a compare-and-swap and visible stores after it; with a slot, or asking for its
    /// CPU.
    Claiming,
    /// Its thread's signal handlers, without a store: it sees all its words at one time.
    Reading,
    /// Its CPU, with one copy among the words that it loads, prepares and commits.
    Copying,
}

/// A sequence's syntax.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is made for.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// What it does.
    pub statements: Vec<Statement>,
    /// The result's form.
    pub returns: Returns,
    /// The result after the commit.
    pub end: Outcome,
    /// The result after an interruption, where that is the end.
    pub abort: Option<Outcome>,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// The slot.
    Slot,
    /// The address of the slot as a plain word.
    Base,
    /// The address of the bulk memory.
    Bulk,
    /// Any word.
    Word,
}

/// What a sequence returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Returns {
    Nothing,
    Bool,
    Words(usize),
    OptionWords(usize),
}

/// A result.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Outcome {
    Words(Vec<Expression>),
    Some(Vec<Expression>),
    None,
    Flag(bool),
}

/// A statement.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Statement {
    /// `let n7 = …`
    Let(usize, Expression),
    Exit(&'static str, Expression, Expression, Outcome),
    /// The same, passing through the commit at the end.
    Leave(&'static str, Expression, Expression, Outcome),
    Prepare(Expression, Expression, u64),
    Store(Expression, Expression, u64),
    Copy(Expression, Expression, Expression),
    Commit(Expression, Expression, u64, bool),
}

/// A word.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Expression {
    /// A parameter by number, or a `let` by number.
    Name(usize),
    Literal(u64),
    Constant(usize),
    Cpu,
    /// A compare-and-swap: where, what must be there, what is stored.
    CompareExchange(Box<Expression>, Box<Expression>, Box<Expression>),
    /// From an address, with its width and whether it acquires.
    Load(Box<Expression>, u64, bool),
    Binary(&'static str, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// What the operators of the language compute.
    pub fn apply(operator: &str, a: u64, b: u64) -> u64 {
        match operator {
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            "*" => a.wrapping_mul(b),
            "&" => a & b,
            "|" => a | b,
            "^" => a ^ b,
            "<<" => a << (b % 64),
            ">>" => a >> (b % 64),
            "min" => a.min(b),
            other => panic!("no such operator: {other}"),
        }
    }

    /// Its value, if that is known before the sequence runs.
    pub fn constant(&self) -> Option<u64> {
        match self {
            Expression::Literal(value) => Some(*value),
            Expression::Constant(index) => Some(CONSTANTS[*index].1),
            Expression::Binary(operator, a, b) => {
                Some(Expression::apply(operator, a.constant()?, b.constant()?))
            }
            _ => None,
        }
    }

    /// Is its value known before the sequence runs?
    pub fn is_constant(&self) -> bool {
        self.constant().is_some()
    }
}

impl Outcome {
    /// Its words, if any.
    pub fn words(&self) -> &[Expression] {
        match self {
            Outcome::Words(words) | Outcome::Some(words) => words,
            Outcome::None | Outcome::Flag(_) => &[],
        }
    }
}
