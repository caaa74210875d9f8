//! Random sequences that keep every rule, each from a seed.
//!
//! `build.rs` writes them as text for `sequence!`, and the tests make the same ones again from the
//! same seeds: a [`Program`] is the syntax tree, [`Program::text`] its text. What a sequence must
//! do is known from the tree alone, by the `oracle`, which shares nothing with the compiler.
//!
//! # How any mixture keeps the rules
//!
//! A random sequence would break a rule almost always: it would load what it prepares later, or
//! commit what it prepared. So memory is cut by use. Each address is drawn from the part for its
//! use, and then the order of statements does not matter:
//!
//! ```text
//! slot   8 … 47 read      48 … 87 prepared     88 … 111 committed    112 the bulk's address
//! bulk   0 … 191 read    192 … 383 prepared   384 … 447 committed    448 … 511 untouched
//! ```
//!
//! Loads may also read a committed word, and a prepared word after it was prepared. Sequences with
//! visible stores ([`Kind::Storing`], [`Kind::Claiming`]) load and store in every part: their rules
//! are about order, which the generator keeps itself. Sequences around one copy ([`Kind::Copying`])
//! use one stretch for everything. There numbers alone decide whether a rule is broken; `copies`
//! knows the numbers, and so makes sequences of either kind on demand.
//!
//! # What is likely to be wrong
//!
//! Chance alone rarely reaches the hard cases of a compiler, so the generator leans towards them:
//!
//! * words that were named last are used more often, so live ranges meet;
//! * constants are near the limits of immediates, or negative, or larger than an instruction holds;
//! * the same address is written in several ways, which the compiler must see as one;
//! * results pass through a commit and are read again before it;
//! * parameters have the names that generated code uses itself.

mod copies;
mod generate;
mod text;
mod words;

pub use generate::generate;

/// Returns a sequence that breaks a rule: what its copy reads or prepares overlaps a word that it
/// loads, prepares or commits.
pub fn break_a_rule(seed: u64) -> Program {
    copies::generate(seed, false)
}

/// Where a slot holds the address of its bulk memory.
pub const BULK_ADDRESS: u64 = 112;

/// The named constants that sequences use. The first is the largest immediate, and too large for an
/// offset. Those from [`BACK`] on take a register as words; the first of them is negative, and may
/// be an offset. The others are both.
pub const CONSTANTS: &[(&str, u64)] = &[
    ("LARGEST", 65_535),
    ("NONE", 0),
    ("TWO", 2),
    ("EIGHT", 8),
    ("FORTY", 40),
    ("BACK", 8u64.wrapping_neg()),
    ("MORE", 65_536),
    ("WIDE", 0xfedc_ba98_7654_3210),
];

/// The index of the negative one.
pub const BACK: usize = 5;

/// The names of parameters: what the generated code calls its own variables and operands.
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
    /// Its CPU: it has a commit, and a slot or `cpu()`. Most have the forms against signal handlers
    /// as well.
    OnCpu,
    /// Its thread's signal handlers, with a commit.
    Committing,
    /// The same, with visible stores.
    Storing,
    /// Its CPU, with a compare-and-swap and visible stores after it, and a slot or `cpu()`.
    Claiming,
    /// Its thread's signal handlers, without a store: it reads all its words at one time.
    Reading,
    /// Its CPU, with one copy among the words that it loads, prepares and commits.
    Copying,
}

/// A sequence as a syntax tree.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is made for.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
    /// Its statements, in order.
    pub statements: Vec<Statement>,
    /// The type of its result.
    pub returns: Returns,
    /// The result after the commit.
    pub end: Outcome,
    /// The result of an interrupted attempt, if that is not restarted.
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
    /// `let n7 = …`, by its number.
    Let(usize, Expression),
    /// `if a == b { return … }`, by the comparison.
    Exit(&'static str, Expression, Expression, Outcome),
    /// The same, passing through the commit at the end of the sequence.
    Leave(&'static str, Expression, Expression, Outcome),
    /// Where, what, and how many bytes.
    Prepare(Expression, Expression, u64),
    /// The same, visible.
    Store(Expression, Expression, u64),
    /// Where to, where from, and how many words.
    Copy(Expression, Expression, Expression),
    /// Where, what, how many bytes, and whether it releases.
    Commit(Expression, Expression, u64, bool),
}

/// A word.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Expression {
    /// A parameter by number, or a `let` by number.
    Name(usize),
    /// A literal.
    Literal(u64),
    /// One of [`CONSTANTS`].
    Constant(usize),
    /// `cpu()`.
    Cpu,
    /// `cas`: where, what must be there, what is stored.
    CompareExchange(Box<Expression>, Box<Expression>, Box<Expression>),
    /// From an address, so many bytes, and whether it acquires.
    Load(Box<Expression>, u64, bool),
    /// An operator and its operands.
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `!`.
    Not(Box<Expression>),
}

impl Expression {
    /// Returns what an operator of the language computes.
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
            "max" => a.max(b),
            other => panic!("no such operator: {other}"),
        }
    }

    /// Returns its value, if that is known before the sequence runs.
    pub fn constant(&self) -> Option<u64> {
        match self {
            Expression::Literal(value) => Some(*value),
            Expression::Constant(index) => Some(CONSTANTS[*index].1),
            Expression::Binary(operator, a, b) => {
                Some(Expression::apply(operator, a.constant()?, b.constant()?))
            }
            Expression::Not(word) => Some(!word.constant()?),
            _ => None,
        }
    }

    /// Whether its value is known before the sequence runs.
    pub fn is_constant(&self) -> bool {
        self.constant().is_some()
    }
}

impl Outcome {
    /// Returns its words, if any.
    pub fn words(&self) -> &[Expression] {
        match self {
            Outcome::Words(words) | Outcome::Some(words) => words,
            Outcome::None | Outcome::Flag(_) => &[],
        }
    }
}

impl Expression {
    /// Collects the names that it reads.
    pub(super) fn names(&self, used: &mut Vec<usize>) {
        match self {
            Expression::Name(name) => used.push(*name),
            Expression::Load(word, _, _) | Expression::Not(word) => word.names(used),
            Expression::CompareExchange(at, expected, new) => {
                [at, expected, new]
                    .into_iter()
                    .for_each(|part| part.names(used));
            }
            Expression::Binary(_, a, b) => {
                a.names(used);
                b.names(used);
            }
            Expression::Literal(_) | Expression::Constant(_) | Expression::Cpu => {}
        }
    }
}

impl Program {
    /// Removes every `let` whose name nothing after it reads: the compiler refuses loads that are
    /// never used.
    pub(super) fn drop_unused(&mut self) {
        let mut used = Vec::new();
        self.end
            .words()
            .iter()
            .for_each(|word| word.names(&mut used));
        let mut kept = Vec::new();
        while let Some(statement) = self.statements.pop() {
            let parts = match &statement {
                Statement::Let(name, _) if !used.contains(name) => continue,
                Statement::Let(_, value) => vec![value],
                Statement::Exit(_, a, b, outcome) | Statement::Leave(_, a, b, outcome) => {
                    outcome
                        .words()
                        .iter()
                        .for_each(|word| word.names(&mut used));
                    vec![a, b]
                }
                Statement::Prepare(to, value, _)
                | Statement::Store(to, value, _)
                | Statement::Commit(to, value, _, _) => {
                    vec![to, value]
                }
                Statement::Copy(to, from, words) => vec![to, from, words],
            };
            parts.into_iter().for_each(|part| part.names(&mut used));
            kept.push(statement);
        }
        kept.reverse();
        self.statements = kept;
    }
}
