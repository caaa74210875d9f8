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
}

/// Runs a sequence to its end.
pub fn run(program: &Program, arguments: &[u64], memory: &mut Memory, cpu: u64) -> Value {
    let mut run = Run {
        names: arguments.to_vec(),
        memory,
        cpu,
    };
    for statement in &program.statements {
        match statement {
            Statement::Let(name, value) => {
                let value = run.word(value);
                run.names.resize(run.names.len().max(name + 1), 0);
                run.names[*name] = value;
            }
            Statement::Exit(comparison, a, b, outcome)
            | Statement::Leave(comparison, a, b, outcome) => {
                let leaves = matches!(statement, Statement::Leave(..));
                let (a, b) = (run.word(a), run.word(b));
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
                        let (to, value) = (run.word(to), run.word(value));
                        run.memory.store(to, value, *width);
                    }
                    return run.value(outcome);
                }
            }
            Statement::Prepare(to, value, width)
            | Statement::Store(to, value, width)
            | Statement::Commit(to, value, width, _) => {
                let (to, value) = (run.word(to), run.word(value));
                run.memory.store(to, value, *width);
            }
            Statement::Copy(to, from, words) => {
                let (to, from, words) = (run.word(to), run.word(from), run.word(words));
                for offset in (0..words).map(|word| 8 * word) {
                    let word = run.memory.load(from + offset, 8);
                    run.memory.store(to + offset, word, 8);
                }
            }
        }
    }
    run.value(&program.end)
}

/// What a sequence returns that was interrupted and does not start again.
pub fn aborted(program: &Program) -> Option<Value> {
    let abort = program.abort.as_ref()?;
    let mut run = Run {
        names: Vec::new(),
        memory: &mut Memory {
            stretches: Vec::new(),
        },
        cpu: 0,
    };
    Some(run.value(abort))
}

impl Run<'_> {
    fn word(&mut self, expression: &Expression) -> u64 {
        match expression {
            Expression::Name(name) => self.names[*name],
            Expression::Literal(value) => *value,
            Expression::Constant(index) => CONSTANTS[*index].1,
            Expression::Cpu => self.cpu,
            Expression::Load(address, width, _) => {
                let address = self.word(address);
                self.memory.load(address, *width)
            }
            Expression::CompareExchange(at, expected, new) => {
                let (expected, new) = (self.word(expected), self.word(new));
                let at = self.word(at);
                let found = self.memory.load(at, 8);
                if found == expected {
                    self.memory.store(at, new, 8);
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
