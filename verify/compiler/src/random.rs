//! Random sequences that keep every rule, from a seed.
//!
//! Shared by `build.rs`, which writes them as `sequence!` for rustc, and by the tests, which make the
//! same ones again and know from their syntax what they must do. Memory is cut by use, so that any
//! mixture keeps the rules: some words are only read, some only prepared, some only committed. Sequences
//! with visible stores read and store wherever they like.
//!
//! ```text
//! slot   8 … 47 read      48 … 87 prepared     88 … 111 committed    112 the bulk's address
//! bulk   0 … 191 read    192 … 383 prepared   384 … 447 committed    448 … 511 untouched
//! ```

use std::fmt::Write;

/// Where a slot holds the address of its bulk memory.
pub const BULK_ADDRESS: u64 = 112;

/// The named constants sequences use. The first is at most an immediate, the others offsets too.
pub const CONSTANTS: &[(&str, u64)] = &[
    ("LARGEST", 65_535),
    ("NONE", 0),
    ("TWO", 2),
    ("EIGHT", 8),
    ("FORTY", 40),
];

/// Parameters are called what the generated code might call something itself.
const NAMES: &[&str] = &[
    "status", "restarts", "t0", "r1", "a0", "c0", "rseq", "closed", "aborted", "exit0", "on_cpu",
    "again", "gated", "held", "word", "r#in",
];

/// What a sequence is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Its CPU: it has a slot and a commit, and most have the forms against signal handlers as well.
    OnCpu,
    /// Its thread's signal handlers, with a commit.
    Committing,
    /// The same, with visible stores.
    Storing,
    /// Its CPU, with a compare-and-swap and visible stores after it.
    Claiming,
}

impl Kind {
    fn of(seed: u64) -> Kind {
        match seed % 5 {
            0 | 1 => Kind::OnCpu,
            2 => Kind::Committing,
            3 => Kind::Storing,
            _ => Kind::Claiming,
        }
    }
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

use Expression::{Binary, CompareExchange, Constant, Cpu, Literal, Load, Name};

/// A part of memory, by use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Read,
    Prepared,
    Committed,
}

/// The sequence of a seed.
pub fn generate(seed: u64) -> Program {
    let mut random = fastrand::Rng::with_seed(seed);
    let kind = Kind::of(seed);
    let slot = match kind {
        Kind::OnCpu | Kind::Claiming => Parameter::Slot,
        Kind::Storing if random.bool() => Parameter::Slot,
        _ => Parameter::Base,
    };
    let mut parameters = vec![slot];
    if random.bool() {
        parameters.push(Parameter::Bulk);
    }
    parameters.extend((0..random.usize(1..4)).map(|_| Parameter::Word));
    random.shuffle(&mut parameters);
    let at = |kind| {
        (0..parameters.len())
            .filter(|index| parameters[*index] == kind)
            .collect::<Vec<_>>()
    };
    let mut generator = Generator {
        kind,
        slot: at(slot)[0],
        pointers: at(Parameter::Bulk),
        numbers: at(Parameter::Word),
        next: parameters.len(),
        prepared: Vec::new(),
        random,
    };
    let returns = *generator.pick(&[
        Returns::Nothing,
        Returns::Bool,
        Returns::Words(1),
        Returns::Words(1),
        Returns::Words(2),
        Returns::OptionWords(1),
        Returns::OptionWords(2),
    ]);
    let mut statements = Vec::new();
    if generator.pointers.is_empty() || generator.one_in(3) {
        let address = Generator::plus(Name(generator.slot), BULK_ADDRESS);
        let acquire = generator.one_in(4);
        let bulk = generator.bind(&mut statements, Load(Box::new(address), 8, acquire));
        generator.pointers.push(bulk);
    }
    let most = if kind == Kind::Claiming { 4 } else { 9 };
    for _ in 0..generator.random.usize(1..most) {
        generator.statement(returns, &mut statements);
    }
    let (commit, abort) = match kind {
        Kind::Claiming => {
            let commit = generator.claim(returns, &mut statements);
            (Some(commit), Some(generator.constants(returns)))
        }
        _ => (None, None),
    };
    // Results are computed before the commit; after a visible store they may be as well.
    let mut end = generator.outcome(returns);
    if kind != Kind::Storing || generator.random.bool() {
        end = generator.bound(end, &mut statements);
    }
    match commit {
        Some(commit) => statements.push(commit),
        None => generator.last_store(&mut statements),
    }
    let mut program = Program {
        kind,
        name: format!("s{seed}"),
        parameters,
        statements,
        returns,
        end,
        abort,
    };
    program.drop_unused();
    program
}

struct Generator {
    random: fastrand::Rng,
    kind: Kind,
    slot: usize,
    /// Names that hold the bulk's address.
    pointers: Vec<usize>,
    /// Names that hold any word.
    numbers: Vec<usize>,
    next: usize,
    /// What was prepared, to be read again.
    prepared: Vec<(Expression, u64)>,
}

impl Generator {
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.usize(0..of.len())]
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.random.usize(0..times) == 0
    }

    fn bind(&mut self, statements: &mut Vec<Statement>, value: Expression) -> usize {
        let name = self.next;
        self.next += 1;
        statements.push(Statement::Let(name, value));
        name
    }

    fn plus(base: Expression, offset: u64) -> Expression {
        Binary("+", Box::new(base), Box::new(Literal(offset)))
    }

    fn statement(&mut self, returns: Returns, statements: &mut Vec<Statement>) {
        match self.random.usize(0..12) {
            0..=3 => {
                // Not a constant by itself, which the compiler would fold on.
                let value = match self.number(2) {
                    value @ (Literal(_) | Constant(_)) => {
                        let number = Name(*self.pick(&self.numbers.clone()));
                        Binary("^", Box::new(number), Box::new(value))
                    }
                    value => value,
                };
                let name = self.bind(statements, value);
                self.numbers.push(name);
            }
            4..=6 => {
                let (a, b) = self.condition();
                let comparison = *self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                let outcome = self.outcome(returns);
                statements.push(Statement::Exit(comparison, a, b, outcome));
            }
            7..=9 if self.kind == Kind::Storing => self.store(statements),
            7..=9 if self.kind == Kind::Claiming => {}
            7..=9 => {
                let width = self.width();
                let to = self.address(Part::Prepared, width, 8);
                let value = self.number(1);
                self.prepared.push((to.clone(), width));
                statements.push(Statement::Prepare(to, value, width));
            }
            10 if self.kind == Kind::OnCpu => {
                let to = self.address(Part::Prepared, 8, 40);
                let from = self.address(Part::Read, 8, 40);
                let words = match self.random.usize(0..3) {
                    0 => Literal(self.random.u64(0..5)),
                    1 => Binary("&", Box::new(self.leaf()), Box::new(Literal(3))),
                    _ => Binary("min", Box::new(self.leaf()), Box::new(Literal(4))),
                };
                // A copy's length may not be known from a constant that rustc evaluates.
                let words = if matches!(words, Binary(_, ref a, _) if !matches!(**a, Name(_))) {
                    Literal(4)
                } else {
                    words
                };
                statements.push(Statement::Copy(to, from, words));
            }
            _ => {
                let pointer = *self.pick(&self.pointers.clone());
                let (up, down) = (self.random.u64(1..5) * 8, 0);
                let moved = Self::plus(Name(pointer), up + down);
                let moved = Binary("-", Box::new(moved), Box::new(Literal(up)));
                let name = self.bind(statements, moved);
                self.pointers.push(name);
            }
        }
    }

    /// The compare-and-swap, its test, and what follows; returns the commit.
    fn claim(&mut self, returns: Returns, statements: &mut Vec<Statement>) -> Statement {
        // What is committed is known beforehand: every way out commits the same.
        let value = self.number(1);
        let value = match value {
            value @ (Literal(_) | Constant(_)) => value,
            value => Name(self.bind(statements, value)),
        };
        let (width, release) = *self.pick(&[(8, false), (8, true), (4, false)]);
        let to = self.address(Part::Committed, width, 8);
        let commit = Statement::Commit(to, value, width, release);

        let at = self.address(Part::Committed, 8, 8);
        let expected = match self.one_in(4) {
            true => self.leaf(),
            false => Name(self.bind(statements, Load(Box::new(at.clone()), 8, false))),
        };
        let new = self.number(1);
        let exchange = CompareExchange(Box::new(at), Box::new(expected.clone()), Box::new(new));
        let found = self.bind(statements, exchange);
        let failed = self.outcome_of_leaves(returns);
        let (a, b) = match self.one_in(3) {
            true => (expected, Name(found)),
            false => (Name(found), expected),
        };
        statements.push(Statement::Exit("!=", a, b, failed));
        // Not always used again: then the flags alone tell.
        if self.one_in(3) {
            self.numbers.push(found);
        }
        let same = self.outcome_of_leaves(returns);
        for _ in 0..self.random.usize(0..5) {
            match self.random.usize(0..3) {
                0 => {
                    let (a, b) = self.condition();
                    let comparison = *self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                    let outcome = match self.random.bool() {
                        true => same.clone(),
                        false => self.outcome_of_leaves(returns),
                    };
                    statements.push(Statement::Leave(comparison, a, b, outcome));
                }
                _ => self.store(statements),
            }
        }
        commit
    }

    /// A result that is not computed.
    fn outcome_of_leaves(&mut self, returns: Returns) -> Outcome {
        let words = |generator: &mut Self, count| (0..count).map(|_| generator.leaf()).collect();
        match returns {
            Returns::Nothing => Outcome::Words(vec![]),
            Returns::Bool => Outcome::Flag(self.random.bool()),
            Returns::Words(count) => Outcome::Words(words(self, count)),
            Returns::OptionWords(_) if self.one_in(3) => Outcome::None,
            Returns::OptionWords(count) => Outcome::Some(words(self, count)),
        }
    }

    /// A result that is known beforehand.
    fn constants(&mut self, returns: Returns) -> Outcome {
        let words = |generator: &mut Self, count| {
            (0..count)
                .map(|_| match generator.random.bool() {
                    true => generator.literal(),
                    false => Constant(generator.random.usize(0..CONSTANTS.len())),
                })
                .collect()
        };
        match returns {
            Returns::Nothing => Outcome::Words(vec![]),
            Returns::Bool => Outcome::Flag(self.random.bool()),
            Returns::Words(count) => Outcome::Words(words(self, count)),
            Returns::OptionWords(_) if self.one_in(3) => Outcome::None,
            Returns::OptionWords(count) => Outcome::Some(words(self, count)),
        }
    }

    fn store(&mut self, statements: &mut Vec<Statement>) {
        let width = self.width();
        let part = self.any_part();
        let to = self.address(part, width, 8);
        let value = self.update(&to, width);
        statements.push(Statement::Store(to, value, width));
    }

    /// The commit, or a visible store.
    fn last_store(&mut self, statements: &mut Vec<Statement>) {
        if self.kind == Kind::Storing {
            return self.store(statements);
        }
        let (width, release) = match self.random.usize(0..5) {
            0 => (4, false),
            1 => (8, true),
            _ => (8, false),
        };
        let to = self.address(Part::Committed, width, 8);
        let value = self.update(&to, width);
        statements.push(Statement::Commit(to, value, width, release));
    }

    /// A word to store there, often made from the one that is there.
    fn update(&mut self, to: &Expression, width: u64) -> Expression {
        match self.random.usize(0..3) {
            0 => self.number(1),
            // What x86-64 does in one instruction.
            _ => {
                let operator = *self.pick(&["+", "-", "&", "|", "^", "*", "min"]);
                let old = Load(Box::new(to.clone()), width, false);
                let other = self.leaf();
                match self.one_in(3) {
                    true => Binary(operator, Box::new(other), Box::new(old)),
                    false => Binary(operator, Box::new(old), Box::new(other)),
                }
            }
        }
    }

    fn any_part(&mut self) -> Part {
        *self.pick(&[Part::Read, Part::Prepared, Part::Committed])
    }

    fn width(&mut self) -> u64 {
        if self.one_in(3) {
            4
        } else {
            8
        }
    }

    /// An address in a part of memory, with room for so many bytes after it.
    fn address(&mut self, part: Part, width: u64, room: u64) -> Expression {
        let in_slot = self.one_in(2);
        let (from, to) = match (in_slot, part) {
            (true, Part::Read) => (8, 48),
            (true, Part::Prepared) => (48, 88),
            (true, Part::Committed) => (88, 112),
            (false, Part::Read) => (0, 192),
            (false, Part::Prepared) => (192, 384),
            (false, Part::Committed) => (384, 448),
        };
        let base = if in_slot {
            self.slot
        } else {
            *self.pick(&self.pointers.clone())
        };
        let words = (to - from - room) / 8 + 1;
        let mut offset = from + 8 * self.random.u64(0..words);
        if width == 4 && self.random.bool() {
            offset += 4;
        }
        // An index only the run knows.
        if words >= 4 && self.one_in(3) {
            let start = from + if width == 4 { offset % 8 } else { 0 };
            let mask = Literal(if words >= 8 { 7 } else { 3 });
            let number = *self.pick(&self.numbers.clone());
            let index = Binary("&", Box::new(Name(number)), Box::new(mask));
            let index = match self.random.bool() {
                true => Binary("<<", Box::new(index), Box::new(Literal(3))),
                false => Binary("*", Box::new(index), Box::new(Constant(3))),
            };
            let base = Binary("+", Box::new(Name(base)), Box::new(index));
            return Self::plus(base, start);
        }
        match self.random.usize(0..5) {
            0 if offset >= 40 => {
                let named = Binary("+", Box::new(Name(base)), Box::new(Constant(4)));
                Self::plus(named, offset - 40)
            }
            1 if offset >= 8 => {
                let rest = Binary("+", Box::new(Constant(3)), Box::new(Literal(offset - 8)));
                Binary("+", Box::new(Name(base)), Box::new(rest))
            }
            2 => {
                let further = Self::plus(Name(base), offset + 8);
                Binary("-", Box::new(further), Box::new(Constant(3)))
            }
            _ => Self::plus(Name(base), offset),
        }
    }

    fn literal(&mut self) -> Expression {
        let any = self.random.u64(..);
        Literal(*self.pick(&[
            0,
            1,
            7,
            63,
            64,
            4095,
            4096,
            65_536,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            1 << 63,
            (1 << 63) - 1,
            u64::MAX,
            u64::MAX - 1,
            0xffff_ffff_8000_0000,
            0xffff_ffff_7fff_ffff,
            0xffff_0000_1234_ffff,
            any,
            any & 0xff,
        ]))
    }

    /// A word without a load, never a constant alone where one would be folded.
    fn leaf(&mut self) -> Expression {
        match self.random.usize(0..6) {
            0 => self.literal(),
            1 => Constant(self.random.usize(0..CONSTANTS.len())),
            2 if self.one_in(4) => Name(*self.pick(&self.pointers.clone())),
            _ => Name(*self.pick(&self.numbers.clone())),
        }
    }

    fn load(&mut self) -> Expression {
        if !self.prepared.is_empty() && self.one_in(3) {
            let (address, width) = self.pick(&self.prepared.clone()).clone();
            return Load(Box::new(address), width, width == 8 && self.one_in(6));
        }
        let width = self.width();
        let part = if matches!(self.kind, Kind::Storing | Kind::Claiming) {
            self.any_part()
        } else if self.one_in(4) {
            Part::Committed
        } else {
            Part::Read
        };
        let acquire = width == 8 && self.one_in(6);
        Load(Box::new(self.address(part, width, 8)), width, acquire)
    }

    fn number(&mut self, depth: usize) -> Expression {
        match self.random.usize(0..8) {
            0 => self.leaf(),
            1 if self.one_in(3) && matches!(self.kind, Kind::OnCpu | Kind::Claiming) => Cpu,
            2 | 3 => self.load(),
            _ if depth == 0 => self.leaf(),
            _ => {
                let operator =
                    *self.pick(&["+", "+", "-", "-", "*", "&", "|", "^", "<<", ">>", "min"]);
                let (a, b) = (self.number(depth - 1), self.number(depth - 1));
                self.operation(operator, a, b)
            }
        }
    }

    /// Constants are kept apart from each other, for together they may leave their range.
    fn operation(&mut self, operator: &'static str, a: Expression, b: Expression) -> Expression {
        let constant = |expression: &Expression| matches!(expression, Literal(_) | Constant(_));
        let a = if constant(&a) && constant(&b) {
            Name(*self.pick(&self.numbers.clone()))
        } else {
            a
        };
        Binary(operator, Box::new(a), Box::new(b))
    }

    fn condition(&mut self) -> (Expression, Expression) {
        let name = Name(*self.pick(&self.numbers.clone()));
        let (a, b) = match self.random.usize(0..4) {
            // Taken now and then.
            0 => {
                let low = Binary("&", Box::new(name), Box::new(Literal(3)));
                (low, Literal(self.random.u64(0..4)))
            }
            1 => (self.load(), self.load()),
            2 => (name, self.number(1)),
            _ => (self.load(), self.leaf()),
        };
        if self.one_in(4) {
            (b, a)
        } else {
            (a, b)
        }
    }

    /// A result: no load, for an early one would be made whether it is taken or not.
    fn outcome(&mut self, returns: Returns) -> Outcome {
        let words = |generator: &mut Self, count| {
            (0..count)
                .map(|_| {
                    let leaf = generator.leaf();
                    match generator.one_in(3) {
                        true => {
                            let other = Name(*generator.pick(&generator.numbers.clone()));
                            generator.operation("+", other, leaf)
                        }
                        false => leaf,
                    }
                })
                .collect()
        };
        match returns {
            Returns::Nothing => Outcome::Words(vec![]),
            Returns::Bool => Outcome::Flag(self.random.bool()),
            Returns::Words(count) => Outcome::Words(words(self, count)),
            Returns::OptionWords(_) if self.one_in(3) => Outcome::None,
            Returns::OptionWords(count) => Outcome::Some(words(self, count)),
        }
    }

    /// The same result, its computations bound to names before the commit.
    fn bound(&mut self, outcome: Outcome, statements: &mut Vec<Statement>) -> Outcome {
        let mut bind = |words: Vec<Expression>| {
            words
                .into_iter()
                .map(|word| match word {
                    Binary(..) => Name(self.bind(statements, word)),
                    word => word,
                })
                .collect()
        };
        match outcome {
            Outcome::Words(words) => Outcome::Words(bind(words)),
            Outcome::Some(words) => Outcome::Some(bind(words)),
            other => other,
        }
    }
}

impl Expression {
    fn names(&self, used: &mut Vec<usize>) {
        match self {
            Name(name) => used.push(*name),
            Load(address, _, _) => address.names(used),
            CompareExchange(at, expected, new) => {
                [at, expected, new]
                    .into_iter()
                    .for_each(|part| part.names(used));
            }
            Binary(_, a, b) => {
                a.names(used);
                b.names(used);
            }
            Literal(_) | Constant(_) | Cpu => {}
        }
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

impl Program {
    fn drop_unused(&mut self) {
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

    /// Does it have a form for its CPU?
    pub fn is_for_its_cpu(&self) -> bool {
        matches!(self.kind, Kind::OnCpu | Kind::Claiming)
    }

    /// Does it have forms against signal handlers? It may not ask for its CPU, nor copy.
    pub fn is_against_handlers(&self) -> bool {
        let text = self.text();
        self.kind != Kind::Claiming && !text.contains("cpu()") && !text.contains("prepare_copy(")
    }

    /// Does it have the one of these that is restarted?
    pub fn is_restarted(&self) -> bool {
        self.is_against_handlers() && self.kind != Kind::Storing
    }

    fn word(&self, expression: &Expression) -> String {
        match expression {
            Name(name) => self.name(*name),
            Literal(value) if value % 2 == 0 => format!("{value}"),
            Literal(value) => format!("{value:#x}"),
            Constant(index) => CONSTANTS[*index].0.to_string(),
            Cpu => "cpu()".to_string(),
            Load(address, width, acquire) => {
                let operation = match (width, acquire) {
                    (4, _) => "load32",
                    (_, true) => "load_acquire",
                    (_, false) => "load",
                };
                format!("{operation}({})", self.word(address))
            }
            CompareExchange(at, expected, new) => {
                let (at, expected) = (self.word(at), self.word(expected));
                format!("cas({at}, {expected}, {})", self.word(new))
            }
            Binary("min", a, b) => format!("min({}, {})", self.word(a), self.word(b)),
            Binary(operator, a, b) => {
                // What needs no parentheses has none: the compiler's lints look at them.
                let side = |side: &Expression| match side {
                    Binary(inner, ..) if *inner != "min" => format!("({})", self.word(side)),
                    _ => self.word(side),
                };
                format!("{} {operator} {}", side(a), side(b))
            }
        }
    }

    fn name(&self, name: usize) -> String {
        match self.parameters.get(name) {
            None => format!("n{name}"),
            Some(Parameter::Slot) => "slot".to_string(),
            // Differs from sequence to sequence.
            Some(_) => {
                NAMES[(name + self.name.len() + self.statements.len()) % NAMES.len()].to_string()
            }
        }
    }

    fn outcome(&self, outcome: &Outcome) -> String {
        let words = || {
            let words: Vec<String> = outcome.words().iter().map(|word| self.word(word)).collect();
            match words.len() {
                0 | 1 => words.join(""),
                _ => format!("({})", words.join(", ")),
            }
        };
        match outcome {
            Outcome::Words(_) => words(),
            Outcome::Some(_) => format!("Some({})", words()),
            Outcome::None => "None".to_string(),
            Outcome::Flag(value) => value.to_string(),
        }
    }

    /// The sequence as one writes it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let parameters: Vec<String> = (0..self.parameters.len())
            .map(|index| {
                let kind = if self.parameters[index] == Parameter::Slot {
                    "Slot"
                } else {
                    "Word"
                };
                format!("{}: {kind}", self.name(index))
            })
            .collect();
        let returns = match self.returns {
            Returns::Nothing => "",
            Returns::Bool => " -> bool",
            Returns::Words(1) => " -> Word",
            Returns::Words(_) => " -> (Word, Word)",
            Returns::OptionWords(1) => " -> Option<Word>",
            Returns::OptionWords(_) => " -> Option<(Word, Word)>",
        };
        let (name, parameters) = (&self.name, parameters.join(", "));
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all");
        line(format!("pub unsafe fn {name}({parameters}){returns} {{"));
        if let Some(abort) = &self.abort {
            line(format!("    'abort: {{ return {} }}", self.outcome(abort)));
        }
        let commit = |to: &Expression, value: &Expression, width: u64, release: bool| {
            let kind = match (width, release) {
                (4, _) => "32",
                (_, true) => "_release",
                (_, false) => "",
            };
            format!("commit{kind}({}, {});", self.word(to), self.word(value))
        };
        for statement in &self.statements {
            line(match statement {
                Statement::Let(name, value) => format!("    let n{name} = {};", self.word(value)),
                Statement::Exit(comparison, a, b, outcome) => {
                    let (a, b) = (self.word(a), self.word(b));
                    let outcome = self.outcome(outcome);
                    format!("    if ({a}) {comparison} ({b}) {{ return {outcome} }}")
                }
                Statement::Prepare(to, value, width) => {
                    let half = if *width == 4 { "32" } else { "" };
                    format!(
                        "    prepare{half}({}, {});",
                        self.word(to),
                        self.word(value)
                    )
                }
                Statement::Store(to, value, width) => {
                    let half = if *width == 4 { "32" } else { "" };
                    format!("    store{half}({}, {});", self.word(to), self.word(value))
                }
                Statement::Copy(to, from, words) => {
                    let (to, from) = (self.word(to), self.word(from));
                    format!("    prepare_copy({to}, {from}, {});", self.word(words))
                }
                Statement::Leave(comparison, a, b, outcome) => {
                    let (a, b) = (self.word(a), self.word(b));
                    let outcome = self.outcome(outcome);
                    let Some(Statement::Commit(to, value, width, release)) = self.statements.last()
                    else {
                        panic!("{} ends with its commit", self.name);
                    };
                    let commit = commit(to, value, *width, *release);
                    format!("    if ({a}) {comparison} ({b}) {{ {commit} return {outcome} }}")
                }
                Statement::Commit(to, value, width, release) => {
                    format!("    {}", commit(to, value, *width, *release))
                }
            });
        }
        line(format!("    {}\n}}", self.outcome(&self.end)));
        text
    }
}
