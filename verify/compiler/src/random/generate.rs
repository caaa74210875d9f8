//! Draws the sequence of a seed: its statements, one after the other. The words in them are drawn
//! by `words`.

use super::Expression::{self, Binary, CompareExchange, Constant, Cpu, Literal, Load, Name};
use super::{copies, Kind, Outcome, Parameter, Program, Returns, Statement};
use super::{BULK_ADDRESS, CONSTANTS};

impl Kind {
    /// Divides seeds among the kinds; those with a `cas` have the most rules, and get the most.
    pub(super) fn of(seed: u64) -> Kind {
        match seed % 14 {
            0..=3 => Kind::OnCpu,
            4 | 5 => Kind::Committing,
            6 | 7 => Kind::Storing,
            8 => Kind::Reading,
            9 => Kind::Copying,
            _ => Kind::Claiming,
        }
    }
}

/// A part of memory, by use; see the front page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Read,
    Prepared,
    Committed,
}

/// Returns the sequence of a seed.
pub fn generate(seed: u64) -> Program {
    let kind = Kind::of(seed);
    if kind == Kind::Copying {
        return copies::generate(seed, true);
    }
    let mut random = fastrand::Rng::with_seed(seed);
    let slot = match kind {
        Kind::OnCpu | Kind::Claiming if random.u8(0..4) > 0 => Parameter::Slot,
        Kind::Storing if random.bool() => Parameter::Slot,
        _ => Parameter::Base,
    };
    let mut parameters = vec![slot];
    if random.bool() {
        parameters.push(Parameter::Bulk);
    }
    // Sometimes more than a calling convention passes in registers; never more than the driver of
    // the emitters' tests takes.
    let words = if random.bool() { 1..4 } else { 4..7 };
    parameters.extend((0..random.usize(words)).map(|_| Parameter::Word));
    random.shuffle(&mut parameters);
    let mut generator = Generator::new(kind, &parameters, random);
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
    if slot != Parameter::Slot && matches!(kind, Kind::OnCpu | Kind::Claiming) {
        // An unregistered thread reads a larger number, and must leave.
        let outcome = generator.outcome(returns);
        statements.push(Statement::Exit(">", Cpu, Constant(0), outcome));
    }
    let max = match kind {
        Kind::Claiming if generator.plain => 2,
        Kind::Claiming => 4,
        _ => 9,
    };
    for _ in 0..generator.random.usize(1..max) {
        generator.statement(returns, &mut statements);
    }
    let (commit, abort) = match kind {
        Kind::Claiming => {
            let commit = generator.claim(returns, &mut statements);
            (Some(commit), Some(generator.given(returns)))
        }
        _ => (None, None),
    };
    // The result is computed before the commit; without one, possibly after the last store.
    let mut end = generator.outcome(returns);
    if kind != Kind::Storing || generator.random.bool() {
        end = generator.bound(end, &mut statements);
    }
    if kind == Kind::Reading && generator.one_in(4) {
        // Now and then a sequence of no instruction.
        statements.clear();
        end = generator.given(returns);
    }
    match commit {
        Some(commit) => statements.push(commit),
        None if kind == Kind::Reading => {}
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

/// The state of one drawing.
pub(super) struct Generator {
    pub(super) random: fastrand::Rng,
    pub(super) kind: Kind,
    /// The name of the slot's address.
    pub(super) slot: usize,
    /// Names that hold the bulk's address.
    pub(super) pointers: Vec<usize>,
    /// Names that hold that address and so many bytes more, in a way that the compiler cannot see
    /// through: accesses by them have negative and large offsets.
    pub(super) far: Vec<(usize, i64)>,
    /// Names that hold any word.
    pub(super) numbers: Vec<usize>,
    /// The parameters among them, which an abort block may return.
    words: Vec<usize>,
    /// The number of the next name.
    pub(super) next: usize,
    /// What was prepared, and its bytes: it may be read again.
    pub(super) prepared: Vec<(Expression, u64)>,
    /// Whether addresses and conditions are the simplest, so that more statements fit.
    pub(super) plain: bool,
}

impl Generator {
    /// Begins a sequence with these parameters.
    pub(super) fn new(kind: Kind, parameters: &[Parameter], mut random: fastrand::Rng) -> Self {
        let at = |kind| {
            (0..parameters.len())
                .filter(|index| parameters[*index] == kind)
                .collect::<Vec<_>>()
        };
        let slots = [Parameter::Slot, Parameter::Base].map(at).concat();
        Generator {
            kind,
            slot: slots[0],
            pointers: at(Parameter::Bulk),
            far: Vec::new(),
            numbers: at(Parameter::Word),
            words: at(Parameter::Word),
            next: parameters.len(),
            prepared: Vec::new(),
            // At most 32 instructions: of shorter steps there are more.
            plain: kind == Kind::Claiming && random.bool(),
            random,
        }
    }

    /// Draws one of these.
    pub(super) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.usize(0..of.len())]
    }

    /// Draws `true` once in so many times.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.random.usize(0..times) == 0
    }

    /// Adds a `let`; returns its name.
    pub(super) fn bind(&mut self, statements: &mut Vec<Statement>, value: Expression) -> usize {
        let name = self.next;
        self.next += 1;
        statements.push(Statement::Let(name, value));
        name
    }

    /// Adds a `let` whose word later statements may use.
    fn name_number(&mut self, value: Expression, statements: &mut Vec<Statement>) {
        // Not a constant: the compiler would fold every use, and might leave the range of
        // constants.
        let value = match value.is_constant() {
            true => {
                let number = Name(self.recent_number());
                Binary("^", Box::new(number), Box::new(value))
            }
            false => value,
        };
        let name = self.bind(statements, value);
        self.numbers.push(name);
    }

    /// Draws a name of a number, often one of the last three. So the last use of one word is near
    /// the first of another, and the allocation of registers is at its most difficult.
    pub(super) fn recent_number(&mut self) -> usize {
        let first = match self.random.bool() {
            true => self.numbers.len().saturating_sub(3),
            false => 0,
        };
        let numbers = self.numbers[first..].to_vec();
        *self.pick(&numbers)
    }

    /// Returns `base + offset`.
    pub(super) fn plus(base: Expression, offset: u64) -> Expression {
        Binary("+", Box::new(base), Box::new(Literal(offset)))
    }

    /// The same, forwards or backwards.
    pub(super) fn offset(base: Expression, offset: i64) -> Expression {
        match u64::try_from(offset) {
            Ok(offset) => Self::plus(base, offset),
            Err(_) => Binary(
                "-",
                Box::new(base),
                Box::new(Literal(offset.unsigned_abs())),
            ),
        }
    }

    /// Adds a statement.
    pub(super) fn statement(&mut self, returns: Returns, statements: &mut Vec<Statement>) {
        match self.random.usize(0..12) {
            0..=3 => {
                let value = self.number(2);
                self.name_number(value, statements);
            }
            4..=6 => {
                let (a, b) = self.condition();
                let comparison = *self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                let outcome = self.outcome(returns);
                statements.push(Statement::Exit(comparison, a, b, outcome));
            }
            7..=9 if self.kind == Kind::Storing => self.store(statements),
            7..=9 if matches!(self.kind, Kind::Claiming | Kind::Reading) => {}
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
                statements.push(Statement::Copy(to, from, words));
            }
            // A pointer that is moved by an amount that the compiler does not know: `x & 0` plus a
            // number. Accesses by it compensate with an offset of their own.
            _ if self.random.bool() => {
                let pointer = *self.pick(&self.pointers.clone());
                let bytes = *self.pick(&[64, 192, 256, 256, -248, -4088, -15_872]);
                let number = Name(self.recent_number());
                let zero = Binary("&", Box::new(number), Box::new(Literal(0)));
                let moved = Self::offset(zero, bytes);
                let address = Binary("+", Box::new(Name(pointer)), Box::new(moved));
                let name = self.bind(statements, address);
                self.far.push((name, bytes));
            }
            // A pointer that is moved up and down again, which the compiler must see through.
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

    /// Adds the compare-and-swap, its test, and what follows; returns the commit, which every early
    /// return must repeat.
    pub(super) fn claim(&mut self, returns: Returns, statements: &mut Vec<Statement>) -> Statement {
        // The committed word is drawn beforehand, because every way out commits the same. A large
        // constant needs a register at the place where all ways out join: the hardest case of the
        // allocation of registers.
        let value = self.exchanged();
        let value = match value.is_constant() {
            true => value,
            false => Name(self.bind(statements, value)),
        };
        let (width, release) = *self.pick(&[(8, false), (8, true), (4, false)]);
        let to = self.address(Part::Committed, width, 8);
        let commit = Statement::Commit(to, value, width, release);

        let at = self.address(Part::Committed, 8, 8);
        let expected = match self.one_in(4) {
            true => match self.exchanged() {
                value if value.is_constant() => value,
                value => Name(self.bind(statements, value)),
            },
            false => Name(self.bind(statements, Load(Box::new(at.clone()), 8, false))),
        };
        let new = self.exchanged();
        let exchange = CompareExchange(Box::new(at), Box::new(expected.clone()), Box::new(new));
        // Nothing is computed between the exchange and its test: the result of the test comes
        // before.
        let failed = self.outcome(returns);
        let failed = self.bound(failed, statements);
        let found = self.bind(statements, exchange);
        let (a, b) = match self.one_in(3) {
            true => (expected, Name(found)),
            false => (Name(found), expected),
        };
        statements.push(Statement::Exit("!=", a, b, failed));
        // If nothing else reads what was found, x86-64 keeps it in the flags alone.
        if self.one_in(3) {
            self.numbers.push(found);
        }
        let same = self.outcome(returns);
        for _ in 0..self.random.usize(0..6) {
            match self.random.usize(0..6) {
                0 => {
                    let outcome = match self.one_in(3) {
                        true => same.clone(),
                        false => self.outcome(returns),
                    };
                    self.leave(outcome, statements);
                }
                1 => {
                    let depth = self.random.usize(0..2);
                    let value = self.number(depth);
                    self.name_number(value, statements);
                }
                2 | 3 => self.return_and_read_again(returns, statements),
                _ => self.store(statements),
            }
        }
        commit
    }

    /// Adds an early return through the commit.
    fn leave(&mut self, outcome: Outcome, statements: &mut Vec<Statement>) {
        let (a, b) = self.condition();
        let comparison = *self.pick(&["==", "!=", "<", "<=", ">", ">="]);
        statements.push(Statement::Leave(comparison, a, b, outcome));
    }

    /// Adds a word that an early return takes through the commit, and that a later statement reads
    /// for the last time: its register must not be free between that statement and the end.
    fn return_and_read_again(&mut self, returns: Returns, statements: &mut Vec<Statement>) {
        let value = self.load();
        let name = self.bind(statements, value);
        self.numbers.push(name);
        let mut outcome = self.outcome(returns);
        if let Outcome::Words(words) | Outcome::Some(words) = &mut outcome {
            if let Some(first) = words.first_mut() {
                *first = Name(name);
            }
        }
        self.leave(outcome, statements);
        let width = self.width();
        let to = self.address(Part::Committed, width, 8);
        statements.push(Statement::Store(to, Name(name), width));
    }

    /// Draws a word as locks hold them: often a constant.
    fn exchanged(&mut self) -> Expression {
        match self.random.bool() {
            true => self.literal(),
            false => self.number(1),
        }
    }

    /// Draws the result of an abort block: constants, and parameters as they are.
    fn given(&mut self, returns: Returns) -> Outcome {
        let words = |generator: &mut Self, count| {
            (0..count)
                .map(|_| match generator.random.usize(0..3) {
                    0 => generator.literal(),
                    1 => Constant(generator.random.usize(0..CONSTANTS.len())),
                    _ => Name(*generator.pick(&generator.words.clone())),
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

    /// Adds a visible store, anywhere.
    pub(super) fn store(&mut self, statements: &mut Vec<Statement>) {
        let width = self.width();
        let part = self.any_part();
        let to = self.address(part, width, 8);
        let value = self.update(&to, width);
        statements.push(Statement::Store(to, value, width));
    }

    /// Adds the last store: the commit, or a visible store.
    pub(super) fn last_store(&mut self, statements: &mut Vec<Statement>) {
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

    /// Draws a word to store at an address, often made from the one that is there.
    pub(super) fn update(&mut self, to: &Expression, width: u64) -> Expression {
        match self.random.usize(0..3) {
            0 => self.number(1),
            // `load p; op; store p`, which x86-64 does in one instruction.
            _ => {
                let operator = *self.pick(&["+", "-", "&", "|", "^", "*", "min", "max"]);
                let old = Load(Box::new(to.clone()), width, false);
                let other = self.leaf();
                match self.one_in(3) {
                    true => Binary(operator, Box::new(other), Box::new(old)),
                    false => Binary(operator, Box::new(old), Box::new(other)),
                }
            }
        }
    }
}
