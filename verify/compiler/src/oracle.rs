//! What a random sequence must do, by interpreting its syntax tree. Nothing is shared with the
//! compiler.
//!
//! The interpreter evaluates strictly from left to right, as the language says, and notes the order
//! of loads. For questions about restarts it can stop storing after a number of stores, as an
//! interruption would.

use atomseq::sequence::model::{Shape, Value};

use crate::random::{Expression, Outcome, Program, Statement, CONSTANTS};

/// Stretches of memory, at the addresses they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The bytes of each, with its first address.
    pub stretches: Vec<(u64, Vec<u8>)>,
}

impl Memory {
    /// Returns the bytes of an access, which must lie inside one stretch: a random sequence reaches
    /// nothing else, so any other address is the test's error.
    fn bytes(&mut self, address: u64, width: u64) -> &mut [u8] {
        let inside = |(start, bytes): &&mut (u64, Vec<u8>)| {
            address >= *start && address + width <= start + bytes.len() as u64
        };
        let (start, bytes) = self
            .stretches
            .iter_mut()
            .find(inside)
            .unwrap_or_else(|| panic!("{address:#x} is not the sequence's to touch"));
        let from = (address - *start) as usize;
        &mut bytes[from..from + width as usize]
    }

    /// Reads 4 or 8 bytes; 4 are extended with zeros.
    pub fn load(&mut self, address: u64, width: u64) -> u64 {
        assert_eq!(address % width, 0, "{address:#x} is not aligned");
        let mut word = [0; 8];
        word[..width as usize].copy_from_slice(self.bytes(address, width));
        u64::from_le_bytes(word)
    }

    /// Writes 4 or 8 bytes.
    pub fn store(&mut self, address: u64, value: u64, width: u64) {
        assert_eq!(address % width, 0, "{address:#x} is not aligned");
        self.bytes(address, width)
            .copy_from_slice(&value.to_le_bytes()[..width as usize]);
    }
}

/// One run.
struct Run<'a> {
    /// The word of each name.
    names: Vec<u64>,
    memory: &'a mut Memory,
    cpu: u64,
    /// What was loaded: address and bytes.
    loads: Vec<(u64, u64)>,
    /// How many more stores take effect before the interruption.
    stores_left: u64,
    /// How many stores were lost to it.
    stores_lost: u64,
}

/// Runs a sequence to its end; returns its result.
pub fn run(program: &Program, arguments: &[u64], memory: &mut Memory, cpu: u64) -> Value {
    run_noting_loads(program, arguments, memory, cpu).0
}

/// Runs a sequence to its end; returns its result, and what it loaded, by address and bytes, in the
/// order of the text: from left to right, an operand before its operator.
pub fn run_noting_loads(
    program: &Program,
    arguments: &[u64],
    memory: &mut Memory,
    cpu: u64,
) -> (Value, Vec<(u64, u64)>) {
    let mut run = Run {
        names: arguments.to_vec(),
        memory,
        cpu,
        loads: Vec::new(),
        stores_left: u64::MAX,
        stores_lost: 0,
    };
    let value = run.all(program);
    (value, run.loads)
}

/// Leaves in memory what an attempt stores that is interrupted after so many stores. Returns
/// whether such an interruption exists: `false` if the attempt ends before it, or if only its last
/// store is left, which is the end.
pub fn interrupt(
    program: &Program,
    arguments: &[u64],
    memory: &mut Memory,
    cpu: u64,
    stores: u64,
) -> bool {
    let mut run = Run {
        names: arguments.to_vec(),
        memory,
        cpu,
        loads: Vec::new(),
        stores_left: stores,
        stores_lost: 0,
    };
    run.all(program);
    run.stores_lost > 1
}

/// Returns the result of an interrupted attempt, if the sequence is not restarted.
pub fn aborted(program: &Program, arguments: &[u64]) -> Option<Value> {
    let abort = program.abort.as_ref()?;
    let mut run = Run {
        names: arguments.to_vec(),
        memory: &mut Memory {
            stretches: Vec::new(),
        },
        cpu: 0,
        loads: Vec::new(),
        stores_left: u64::MAX,
        stores_lost: 0,
    };
    Some(run.value(abort))
}

impl Run<'_> {
    /// Runs all statements; returns the result.
    fn all(&mut self, program: &Program) -> Value {
        for statement in &program.statements {
            match statement {
                Statement::Let(name, value) => {
                    let value = self.word(value);
                    self.names.resize(self.names.len().max(name + 1), 0);
                    self.names[*name] = value;
                }
                Statement::Exit(comparison, a, b, outcome)
                | Statement::Leave(comparison, a, b, outcome) => {
                    let leaves = matches!(statement, Statement::Leave(..));
                    let (a, b) = (self.word(a), self.word(b));
                    let holds = match *comparison {
                        "==" => a == b,
                        "!=" => a != b,
                        "<" => a < b,
                        "<=" => a <= b,
                        ">" => a > b,
                        _ => a >= b,
                    };
                    if holds {
                        if leaves {
                            let Some(Statement::Commit(to, value, width, _)) =
                                program.statements.last()
                            else {
                                panic!("{} ends with its commit", program.name);
                            };
                            let (to, value) = (self.word(to), self.word(value));
                            self.store(to, value, *width);
                        }
                        return self.value(outcome);
                    }
                }
                Statement::Prepare(to, value, width)
                | Statement::Store(to, value, width)
                | Statement::Commit(to, value, width, _) => {
                    let (to, value) = (self.word(to), self.word(value));
                    self.store(to, value, *width);
                }
                Statement::Copy(to, from, words) => {
                    let (to, from, words) = (self.word(to), self.word(from), self.word(words));
                    for offset in (0..words).map(|word| 8 * word) {
                        let word = self.load(from + offset, 8);
                        self.store(to + offset, word, 8);
                    }
                }
            }
        }
        self.value(&program.end)
    }

    /// Stores, unless the interruption came before.
    fn store(&mut self, address: u64, value: u64, width: u64) {
        match self.stores_left.checked_sub(1) {
            None => self.stores_lost += 1,
            Some(left) => {
                self.stores_left = left;
                self.memory.store(address, value, width);
            }
        }
    }

    /// Loads, and notes it.
    fn load(&mut self, address: u64, width: u64) -> u64 {
        self.loads.push((address, width));
        self.memory.load(address, width)
    }

    /// Evaluates an expression.
    fn word(&mut self, expression: &Expression) -> u64 {
        match expression {
            Expression::Name(name) => self.names[*name],
            Expression::Literal(value) => *value,
            Expression::Constant(index) => CONSTANTS[*index].1,
            Expression::Cpu => self.cpu,
            Expression::Load(address, width, _) => {
                let address = self.word(address);
                self.load(address, *width)
            }
            Expression::CompareExchange(at, expected, new) => {
                let at = self.word(at);
                let (expected, new) = (self.word(expected), self.word(new));
                let found = self.load(at, 8);
                if found == expected {
                    self.store(at, new, 8);
                }
                found
            }
            Expression::Binary(operator, a, b) => {
                let (a, b) = (self.word(a), self.word(b));
                Expression::apply(operator, a, b)
            }
            Expression::Not(word) => !self.word(word),
        }
    }

    /// Evaluates a result.
    fn value(&mut self, outcome: &Outcome) -> Value {
        let shape = match outcome {
            Outcome::Words(_) => Shape::Plain,
            Outcome::Some(_) => Shape::Some,
            Outcome::None => Shape::None,
            Outcome::Flag(true) => Shape::True,
            Outcome::Flag(false) => Shape::False,
        };
        let words = outcome
            .words()
            .iter()
            .map(|word| self.word(word) as usize)
            .collect();
        Value { shape, words }
    }
}
