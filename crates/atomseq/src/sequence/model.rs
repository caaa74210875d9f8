//! The `model` form: a sequence as data, and an interpreter that runs it one step at a time.
//!
//! A checker owns the memory. It may inspect it between any two steps, abort the attempt there, and
//! start another, as the kernel would. A copy is stepped word by word.
//!
//! Functions are `#[inline]`, so that they are optimised as the checker is: debug builds of the
//! library are not.

use std::collections::BTreeMap;

/// A sequence as data.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The sequence's name.
    pub name: &'static str,
    /// The parameters. Parameter `i` is in register `i` at first.
    pub parameters: &'static [Parameter],
    /// The steps, in order.
    pub steps: &'static [Step],
    /// The results of early exits.
    pub exits: &'static [Outcome],
    /// The result after the commit.
    pub result: Outcome,
    /// The exits that pass through the commit, which releases what the sequence has claimed.
    pub by_commit: &'static [usize],
    /// The result of an aborted attempt, for a sequence that is not restarted. Everything up to the
    /// commit may have happened then.
    pub abort: Option<Outcome>,
    /// The number of registers.
    pub registers: usize,
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub enum Parameter {
    /// The address of this CPU's slot.
    Slot(&'static str),
    /// A word.
    Word(&'static str),
}

/// A register or a constant.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// A register by number.
    Register(usize),
    /// A constant.
    Constant(usize),
}

/// A register plus an offset.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The register.
    pub base: usize,
    /// What is added to it, wrapping.
    pub offset: usize,
}

/// Wrapping, unsigned arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
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

/// Unsigned comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Reads `bytes` bytes.
    Load {
        /// The register it goes to.
        to: usize,
        /// Where it is read.
        from: Address,
        /// 4 or 8.
        bytes: usize,
    },
    /// Reads the CPU number.
    Cpu {
        /// The register it goes to.
        to: usize,
    },
    /// Stores a word if the memory holds the expected one. The store is visible at once, so an
    /// attempt that made it cannot be restarted.
    CompareExchange {
        /// The register that gets the previous word.
        to: usize,
        /// The address.
        at: Address,
        /// The word that must be there.
        expected: Operand,
        /// The word to store.
        new: Operand,
    },
    /// Computes.
    Binary {
        /// The register the result goes to.
        to: usize,
        /// The operation.
        operator: Operator,
        /// The left operand.
        a: Operand,
        /// The right operand.
        b: Operand,
    },
    /// Leaves by `exit` if the comparison holds. For an exit in [`Program::by_commit`], the commit
    /// comes first.
    Exit {
        /// The comparison.
        comparison: Comparison,
        /// The left operand.
        a: Operand,
        /// The right operand.
        b: Operand,
        /// An index into [`Program::exits`].
        exit: usize,
    },
    /// A store that no other thread or handler reads before the commit.
    Prepare {
        /// The address.
        to: Address,
        /// The value.
        value: Operand,
        /// 4 or 8.
        bytes: usize,
    },
    /// The one visible store.
    Commit {
        /// The address.
        to: Address,
        /// The value.
        value: Operand,
        /// 4 or 8.
        bytes: usize,
    },
    /// A store that is visible at once: in a sequence that is rolled forward, or after a
    /// compare-exchange.
    Store {
        /// The address.
        to: Address,
        /// The value.
        value: Operand,
        /// 4 or 8.
        bytes: usize,
    },
    /// A copy of words that no other thread or handler reads before the commit.
    Copy {
        /// The destination.
        to: Operand,
        /// The source.
        from: Operand,
        /// The number of words.
        words: Operand,
    },
}

/// The result of a sequence, by operands.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How the words are wrapped.
    pub shape: Shape,
    /// The words.
    pub words: &'static [Operand],
}

/// How the words of a result are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Shape {
    Plain,
    Some,
    None,
    True,
    False,
}

/// A result with its values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value {
    /// How the words are wrapped.
    pub shape: Shape,
    /// The words.
    pub words: Vec<usize>,
}

/// The memory of a model: words by address. A word that was never written is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Memory {
    words: BTreeMap<usize, usize>,
}

impl Memory {
    /// Returns the word at an address.
    #[inline]
    pub fn load(&self, address: usize) -> usize {
        assert!(
            address.is_multiple_of(8),
            "the model loads an unaligned word at {address:#x}"
        );
        self.words.get(&address).copied().unwrap_or(0)
    }

    /// Stores a word.
    #[inline]
    pub fn store(&mut self, address: usize, value: usize) {
        assert!(
            address.is_multiple_of(8),
            "the model stores an unaligned word at {address:#x}"
        );
        self.words.insert(address, value);
    }

    /// Returns an iterator over all words that were ever written, by address.
    #[inline]
    pub fn words(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.words.iter().map(|(address, word)| (*address, *word))
    }

    /// Returns the 4 or 8 bytes at an address.
    #[inline]
    pub fn load_bytes(&self, address: usize, bytes: usize) -> usize {
        match bytes {
            8 => self.load(address),
            _ => self.load(address & !7) >> (8 * (address & 4)) & 0xffff_ffff,
        }
    }

    /// Stores 4 or 8 bytes.
    #[inline]
    pub fn store_bytes(&mut self, address: usize, value: usize, bytes: usize) {
        match bytes {
            8 => self.store(address, value),
            _ => {
                let shift = 8 * (address & 4);
                let rest = self.load(address & !7) & !(0xffff_ffff << shift);
                self.store(address & !7, rest | (value & 0xffff_ffff) << shift);
            }
        }
    }
}

/// 4 or 8 bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub struct Span {
    pub address: usize,
    pub bytes: usize,
}

/// One attempt at a sequence, between two of its steps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    registers: Vec<usize>,
    next: usize,
    copied: usize,
    prepared: Vec<Span>,
    outcome: Option<Value>,
    leaving: Option<usize>,
    committed: bool,
    stored: bool,
}

impl Attempt {
    /// Creates an attempt with these arguments. A slot is passed as its address on the CPU that the
    /// attempt runs on.
    #[inline]
    pub fn new(program: &Program, arguments: &[usize]) -> Attempt {
        assert_eq!(
            arguments.len(),
            program.parameters.len(),
            "wrong number of arguments for {}",
            program.name
        );
        let mut registers = arguments.to_vec();
        registers.resize(program.registers, 0);
        Attempt {
            registers,
            next: 0,
            copied: 0,
            prepared: Vec::new(),
            outcome: None,
            leaving: None,
            committed: false,
            stored: false,
        }
    }

    /// Returns the result, once there is one.
    #[inline]
    pub fn outcome(&self) -> Option<&Value> {
        self.outcome.as_ref()
    }

    /// Returns whether the visible store has happened.
    #[inline]
    pub fn committed(&self) -> bool {
        self.committed
    }

    /// Returns whether a store other than the commit has become visible. If so, this attempt cannot
    /// be restarted: it must be run to its end, or be rolled back.
    #[inline]
    pub fn stored(&self) -> bool {
        self.stored
    }

    /// Returns the spans that this attempt has prepared so far. After an abort, their contents must
    /// not matter.
    #[inline]
    pub fn prepared(&self) -> &[Span] {
        &self.prepared
    }

    /// Returns the next step, unless the attempt has ended.
    #[inline]
    pub fn next(&self, program: &Program) -> Option<Step> {
        match &self.outcome {
            Some(_) => None,
            None => program.steps.get(self.next).copied(),
        }
    }

    /// Returns the spans that the next step will read and write, so that a checker can reject an
    /// address before it is used.
    #[inline]
    pub fn touches(&self, program: &Program) -> (Option<Span>, Option<Span>) {
        let span = |address, bytes| Some(Span { address, bytes });
        match self.next(program) {
            Some(Step::Load { from, bytes, .. }) => (span(self.address(from), bytes), None),
            Some(Step::CompareExchange { at, .. }) => {
                let word = span(self.address(at), 8);
                (word, word)
            }
            Some(
                Step::Prepare { to, bytes, .. }
                | Step::Commit { to, bytes, .. }
                | Step::Store { to, bytes, .. },
            ) => (None, span(self.address(to), bytes)),
            Some(Step::Copy { to, from, words }) if self.copied < self.word(words) => {
                let at = |start: Operand| self.word(start).wrapping_add(8 * self.copied);
                (span(at(from), 8), span(at(to), 8))
            }
            _ => (None, None),
        }
    }

    /// Returns the result of an aborted attempt, if the sequence is not restarted.
    #[inline]
    pub fn aborted(&self, program: &Program) -> Option<Value> {
        program.abort.as_ref().map(|abort| self.value(abort))
    }

    /// Runs to the end without interruption.
    #[inline]
    pub fn run(mut self, program: &Program, memory: &mut Memory, cpu: usize) -> Value {
        while self.outcome.is_none() {
            self.step(program, memory, cpu);
        }
        self.outcome.expect("the loop ends with an outcome")
    }

    /// Runs one step, or one word of a copy. Does nothing if there is a result already.
    #[inline]
    pub fn step(&mut self, program: &Program, memory: &mut Memory, cpu: usize) {
        if self.outcome.is_some() {
            return;
        }
        let Some(step) = program.steps.get(self.next) else {
            return self.outcome = Some(self.value(&program.result));
        };
        self.next += 1;
        match *step {
            Step::Load { to, from, bytes } => {
                self.registers[to] = memory.load_bytes(self.address(from), bytes);
            }
            Step::Cpu { to } => self.registers[to] = cpu,
            Step::CompareExchange {
                to,
                at,
                expected,
                new,
            } => {
                let at = self.address(at);
                let (expected, new) = (self.word(expected), self.word(new));
                let found = memory.load(at);
                if found == expected {
                    memory.store(at, new);
                    self.stored = true;
                }
                self.registers[to] = found;
            }
            Step::Binary { to, operator, a, b } => {
                self.registers[to] = operator.apply(self.word(a), self.word(b));
            }
            Step::Exit {
                comparison,
                a,
                b,
                exit,
            } => {
                if comparison.holds(self.word(a), self.word(b)) {
                    if program.by_commit.contains(&exit) {
                        // The branch is one instruction, the commit another.
                        self.leaving = Some(exit);
                        self.next = program.steps.len() - 1;
                    } else {
                        self.outcome = Some(self.value(&program.exits[exit]));
                    }
                }
            }
            Step::Prepare { to, value, bytes } => {
                let to = self.address(to);
                self.prepared.push(Span { address: to, bytes });
                memory.store_bytes(to, self.word(value), bytes);
            }
            Step::Commit { to, value, bytes } => {
                memory.store_bytes(self.address(to), self.word(value), bytes);
                self.committed = true;
                // The section ends with this instruction, so no abort is possible after it.
                let way_out = self.leaving.map(|exit| &program.exits[exit]);
                self.outcome = Some(self.value(way_out.unwrap_or(&program.result)));
            }
            Step::Store { to, value, bytes } => {
                memory.store_bytes(self.address(to), self.word(value), bytes);
                self.stored = true;
            }
            Step::Copy { to, from, words } => {
                if self.copied < self.word(words) {
                    let offset = 8 * self.copied;
                    let to = self.word(to).wrapping_add(offset);
                    let from = self.word(from).wrapping_add(offset);
                    self.prepared.push(Span {
                        address: to,
                        bytes: 8,
                    });
                    memory.store(to, memory.load(from));
                    self.copied += 1;
                    self.next -= 1;
                } else {
                    self.copied = 0;
                }
            }
        }
    }

    #[inline]
    fn word(&self, operand: Operand) -> usize {
        match operand {
            Operand::Register(index) => self.registers[index],
            Operand::Constant(value) => value,
        }
    }

    #[inline]
    fn address(&self, address: Address) -> usize {
        self.registers[address.base].wrapping_add(address.offset)
    }

    #[inline]
    fn value(&self, outcome: &Outcome) -> Value {
        let words = outcome
            .words
            .iter()
            .map(|operand| self.word(*operand))
            .collect();
        Value {
            shape: outcome.shape,
            words,
        }
    }
}

impl Operator {
    /// Returns the result of the operation.
    #[inline]
    pub fn apply(self, a: usize, b: usize) -> usize {
        match self {
            Operator::Add => a.wrapping_add(b),
            Operator::Subtract => a.wrapping_sub(b),
            Operator::Multiply => a.wrapping_mul(b),
            Operator::And => a & b,
            Operator::Or => a | b,
            Operator::Xor => a ^ b,
            Operator::ShiftLeft => a.wrapping_shl(b as u32),
            Operator::ShiftRight => a.wrapping_shr(b as u32),
            Operator::Minimum => a.min(b),
            Operator::Maximum => a.max(b),
        }
    }
}

impl Comparison {
    /// Returns whether the comparison holds.
    #[inline]
    pub fn holds(self, a: usize, b: usize) -> bool {
        match self {
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b,
            Comparison::Less => a < b,
            Comparison::LessOrEqual => a <= b,
            Comparison::Greater => a > b,
            Comparison::GreaterOrEqual => a >= b,
        }
    }
}
