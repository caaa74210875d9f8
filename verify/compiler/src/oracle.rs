//! What a random sequence must do, from its syntax alone: nothing is shared with the compiler.

use atomseq::sequence::model::{Shape, Value};

use crate::random::{Expression, Outcome, Program, Statement, CONSTANTS};

/// Stretches of memory, at the addresses they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Each with its first address.
    pub stretches: Vec<(u64, Vec<u8>)>,
}

impl Memory {
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

    /// Reads 4 or 8 bytes.
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

struct Run<'a> {
    names: Vec<u64>,
    memory: &'a mut Memory,
    cpu: u64,
    loads: Vec<(u64, u64)>,
    /// How many stores happen before the interruption, and how many were to happen after it.
    stores_left: u64,
    stores_lost: u64,
}

/// Runs a sequence to its end.
pub fn run(program: &Program, arguments: &[u64], memory: &mut Memory, cpu: u64) -> Value {
    run_noting_loads(program, arguments, memory, cpu).0
}

/// The same; and what it loaded, by address and bytes, in the order in which the text has it: from
/// left to right, what is inside before what is around it.
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

/// Leaves in memory what an attempt has stored that is interrupted after so many stores. `false`:
/// it comes to its end before that, or has only its last store to do.
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

/// What a sequence returns that was interrupted and does not start again.
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

    /// What would be stored after the interruption is not.
    fn store(&mut self, address: u64, value: u64, width: u64) {
        match self.stores_left.checked_sub(1) {
            None => self.stores_lost += 1,
            Some(left) => {
                self.stores_left = left;
                self.memory.store(address, value, width);
            }
        }
    }

    fn load(&mut self, address: u64, width: u64) -> u64 {
        self.loads.push((address, width));
        self.memory.load(address, width)
    }

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
        }
    }

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
