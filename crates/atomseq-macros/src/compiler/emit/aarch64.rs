//! AArch64.
//!
//! Operands: `a0…` parameters (for a slot, the area's base), `t0…` temporaries, `c0…` constants,
//! `stride` from slot to slot,
//! `rseq` the offset of struct rseq from the thread pointer (tpidr_el0), `status`. Words enter and
//! leave memory by loads and stores alone; conditional branches reach a megabyte, so what is out
//! of line stays in the function's own section, as a subsection.

use super::super::ir::*;
use super::indexing::Indexed;
use super::registers::Registers;
use super::{Assembly, Builder, Leaving, aborted_status, label};

/// Emits the `on_cpu` form.
pub fn on_cpu(sequence: &Sequence) -> Assembly {
    let mut emitter = Emitter {
        sequence,
        leaving: Leaving::of(sequence),
        out: Builder::default(),
        registers: Registers::new(sequence, &Indexed::none(sequence)),
        results: Vec::new(),
        rseq: String::new(),
    };
    emitter.arm();
    emitter.out.start();
    emitter.slots();
    for index in 0..sequence.steps.len() {
        emitter.step(index);
        emitter.registers.end_of_step(index);
        emitter.out.end_of_step(&sequence.steps[index]);
    }
    emitter.out.end();
    emitter.out_of_line();
    emitter.out.descriptor();
    let last = sequence
        .end
        .result
        .iter()
        .map(|operand| emitter.registers.place(operand))
        .collect();
    emitter.results.push(last);
    emitter
        .out
        .finish(emitter.registers.count(), None, emitter.results)
}

struct Emitter<'a> {
    sequence: &'a Sequence,
    leaving: Leaving,
    out: Builder,
    registers: Registers,
    results: Vec<Vec<super::Place>>,
    /// The temporary that holds the address of struct rseq throughout.
    rseq: String,
}

impl Emitter<'_> {
    fn arm(&mut self) {
        if self.leaving == Leaving::Status {
            self.out.instruction("mov {status:w}, wzr");
        }
        let rseq = self.registers.scratch();
        self.rseq = format!("{{t{rseq}}}");
        let rseq = &self.rseq;
        let scratch = self.registers.scratch();
        self.out.instruction(format!("mrs {rseq}, tpidr_el0"));
        self.out
            .instruction(format!("add {rseq}, {rseq}, {{rseq}}"));
        // The descriptor follows in the template, in its own section.
        self.out
            .instruction(format!("adrp {{t{scratch}}}, {}f", label::DESCRIPTOR));
        self.out.instruction(format!(
            "add {{t{scratch}}}, {{t{scratch}}}, :lo12:{}f",
            label::DESCRIPTOR
        ));
        self.out
            .instruction(format!("str {{t{scratch}}}, [{rseq}, #8]"));
        self.registers.release(scratch);
    }

    fn slots(&mut self) {
        let closed = match self.leaving {
            Leaving::Labels => "{closed}".to_string(),
            Leaving::Status => format!("{}f", label::CLOSED),
        };
        let sequence = self.sequence;
        for (register, _) in sequence.slots() {
            let slot = self.registers.define(register);
            let gate = self.registers.scratch();
            self.out
                .instruction(format!("ldrsw {slot}, [{}, #4]", self.rseq));
            self.out.instruction(format!(
                "madd {slot}, {slot}, {{stride}}, {{a{}}}",
                register.0
            ));
            // Acquire: pairs with the release that opened the gate.
            self.out.load_acquire(format!("{{t{gate}:w}}, [{slot}]"));
            self.out
                .instruction(format!("cbnz {{t{gate}:w}}, {closed}"));
            self.registers.release(gate);
        }
    }

    fn step(&mut self, index: usize) {
        let sequence = self.sequence;
        match &sequence.steps[index].kind {
            StepKind::Load {
                to,
                from,
                width,
                acquire,
            } => {
                if *acquire {
                    let (address, scratch) = self.bare_address(from);
                    let to = self.registers.define(*to);
                    self.out.load_acquire(format!("{to}, [{address}]"));
                    self.give_back(scratch);
                } else {
                    let memory = self.memory(from, *width);
                    self.registers.define(*to);
                    let to = self.sized(*to, *width);
                    self.out.instruction(format!("ldr {to}, {memory}"));
                }
            }
            StepKind::Cpu { to } => {
                let to = self.registers.define(*to);
                self.out
                    .instruction(format!("ldrsw {to}, [{}, #4]", self.rseq));
            }
            StepKind::Binary { to, operator, a, b } => self.binary(*to, *operator, a, b),
            StepKind::Exit {
                comparison,
                a,
                b,
                exit,
            } => self.leave(*comparison, a, b, *exit),
            StepKind::Store {
                to,
                value,
                width,
                release,
                ..
            } => {
                let (value, value_scratch) = self.stored(value, *width);
                if *release {
                    let (address, scratch) = self.bare_address(to);
                    self.out.instruction(format!("stlr {value}, [{address}]"));
                    self.give_back(scratch);
                } else {
                    let memory = self.memory(to, *width);
                    self.out.instruction(format!("str {value}, {memory}"));
                }
                self.give_back(value_scratch);
            }
            StepKind::Copy { to, from, words } => self.copy(*to, *from, words),
        }
    }

    fn binary(&mut self, to: Register, operator: BinaryOperator, a: &Operand, b: &Operand) {
        use BinaryOperator::*;
        let (a, a_scratch) = self.in_register(a);
        let (b, b_scratch) = match (operator, b) {
            (
                Add | Subtract,
                Operand::Constant(Constant {
                    value: Some(value), ..
                }),
            ) if *value < 4096 => (format!("#{value}"), None),
            (
                ShiftLeft | ShiftRight,
                Operand::Constant(Constant {
                    value: Some(value), ..
                }),
            ) => (format!("#{}", value & 63), None),
            (_, b) => self.in_register(b),
        };
        let to = self.registers.define(to);
        let mnemonic = match operator {
            Add => "add",
            Subtract => "sub",
            Multiply => "mul",
            And => "and",
            Or => "orr",
            Xor => "eor",
            ShiftLeft => "lsl",
            ShiftRight => "lsr",
            Minimum => {
                self.out.instruction(format!("cmp {a}, {b}"));
                self.out.instruction(format!("csel {to}, {a}, {b}, lo"));
                self.give_back(a_scratch);
                return self.give_back(b_scratch);
            }
        };
        self.out.instruction(format!("{mnemonic} {to}, {a}, {b}"));
        self.give_back(a_scratch);
        self.give_back(b_scratch);
    }

    /// Branches out of the section if the comparison holds.
    fn leave(&mut self, comparison: Comparison, a: &Operand, b: &Operand, exit: usize) {
        let target = match self.leaving {
            Leaving::Labels => format!("{{exit{exit}}}"),
            Leaving::Status => format!("{}f", label::EXIT + exit),
        };
        let (a, a_scratch) = self.in_register(a);
        let zero = matches!(b, Operand::Constant(Constant { value: Some(0), .. }));
        match comparison {
            Comparison::Equal if zero => self.out.instruction(format!("cbz {a}, {target}")),
            Comparison::NotEqual if zero => self.out.instruction(format!("cbnz {a}, {target}")),
            _ => {
                let (b, b_scratch) = match b {
                    Operand::Constant(Constant {
                        value: Some(value), ..
                    }) if *value < 4096 => (format!("#{value}"), None),
                    b => self.in_register(b),
                };
                let condition = match comparison {
                    Comparison::Equal => "eq",
                    Comparison::NotEqual => "ne",
                    Comparison::Less => "lo",
                    Comparison::LessOrEqual => "ls",
                    Comparison::Greater => "hi",
                    Comparison::GreaterOrEqual => "hs",
                };
                self.out.instruction(format!("cmp {a}, {b}"));
                self.out.instruction(format!("b.{condition} {target}"));
                self.give_back(b_scratch);
            }
        }
        self.give_back(a_scratch);
        let result = &self.sequence.exits[exit].result;
        self.results.push(
            result
                .iter()
                .map(|operand| self.registers.place(operand))
                .collect(),
        );
    }

    fn copy(&mut self, to: Register, from: Register, words: &Operand) {
        let (to, from) = (self.registers.name(to), self.registers.name(from));
        let (words, words_scratch) = self.in_register(words);
        let (index, word) = (self.registers.scratch(), self.registers.scratch());
        self.out.as_one(|out| {
            // Downwards from the last word; nothing at all for no words.
            out.instruction(format!("mov {{t{index}}}, {words}"));
            out.instruction(format!("b {}f", label::COPY_TEST));
            out.directive(format!("{}:", label::COPY));
            out.instruction(format!("ldr {{t{word}}}, [{from}, {{t{index}}}, lsl #3]"));
            out.instruction(format!("str {{t{word}}}, [{to}, {{t{index}}}, lsl #3]"));
            out.directive(format!("{}:", label::COPY_TEST));
            out.instruction(format!("subs {{t{index}}}, {{t{index}}}, #1"));
            out.instruction(format!("b.pl {}b", label::COPY));
        });
        self.registers.release(index);
        self.registers.release(word);
        self.give_back(words_scratch);
    }

    /// What is reached only when something happened, kept away from the fast path.
    fn out_of_line(&mut self) {
        self.out.directive(".subsection 1");
        // brk with the signature's number: the four bytes before the abort address.
        self.out.directive(".inst 0xd428bc00");
        self.out.directive(format!("{}:", label::ABORT));
        match self.leaving {
            Leaving::Labels => self.out.instruction("b {aborted}"),
            Leaving::Status => {
                let aborted = aborted_status(self.sequence);
                let mut arrive = |at: Option<usize>, status: usize| {
                    if let Some(at) = at {
                        self.out.directive(format!("{at}:"));
                    }
                    self.out.instruction(format!("mov {{status:w}}, #{status}"));
                    self.out.instruction(format!("b {}b", label::END));
                };
                arrive(None, aborted);
                arrive(Some(label::CLOSED), aborted + 1);
                for exit in 0..self.sequence.exits.len() {
                    arrive(Some(label::EXIT + exit), exit + 1);
                }
            }
        }
        self.out.directive(".subsection 0");
    }

    fn memory(&mut self, address: &Address, width: Width) -> String {
        let base = self.registers.name(address.base);
        match self.out.offset(&address.offset, width.bytes()) {
            None => format!("[{base}]"),
            Some(offset) => format!("[{base}, #{offset}]"),
        }
    }

    /// An address in a register, for the instructions that take no offset.
    fn bare_address(&mut self, address: &Address) -> (String, Option<usize>) {
        let base = self.registers.name(address.base);
        let Some(offset) = self.out.offset(&address.offset, Width::Word.bytes()) else {
            return (base, None);
        };
        let scratch = self.registers.scratch();
        let name = format!("{{t{scratch}}}");
        // One move holds every offset that the check of its range lets through.
        self.out.instruction(format!("mov {name}, #{offset}"));
        self.out.instruction(format!("add {name}, {base}, {name}"));
        (name, Some(scratch))
    }

    fn stored(&mut self, value: &Operand, width: Width) -> (String, Option<usize>) {
        match (value, width) {
            (Operand::Constant(Constant { value: Some(0), .. }), Width::Word) => {
                ("xzr".into(), None)
            }
            (Operand::Constant(Constant { value: Some(0), .. }), Width::Half) => {
                ("wzr".into(), None)
            }
            (Operand::Register(register), width) => (self.sized(*register, width), None),
            (constant, Width::Word) => self.in_register(constant),
            (constant, Width::Half) => {
                let (name, scratch) = self.in_register(constant);
                (name.replace('}', ":w}"), scratch)
            }
        }
    }

    fn in_register(&mut self, operand: &Operand) -> (String, Option<usize>) {
        let constant = match operand {
            Operand::Register(register) => return (self.registers.name(*register), None),
            Operand::Constant(constant) => constant,
        };
        let scratch = self.registers.scratch();
        match constant.value {
            None => {
                let named = self.out.immediate(constant);
                self.out
                    .instruction(format!("mov {{t{scratch}}}, #{named}"));
            }
            Some(value) => self.literal(scratch, value),
        }
        (format!("{{t{scratch}}}"), Some(scratch))
    }

    /// Sixteen bits at a time, starting from all ones where that is shorter.
    fn literal(&mut self, scratch: usize, value: u64) {
        let chunks = [0u32, 16, 32, 48].map(|shift| (shift, (value >> shift) & 0xffff));
        let count = |of: u64| chunks.iter().filter(|(_, chunk)| *chunk == of).count();
        let inverted = count(0xffff) > count(0);
        let filler = if inverted { 0xffff } else { 0 };
        let mut written = chunks.iter().filter(|(_, chunk)| *chunk != filler);
        let (shift, chunk) = written.next().copied().unwrap_or((0, filler));
        let (mnemonic, first) = if inverted {
            ("movn", chunk ^ 0xffff)
        } else {
            ("movz", chunk)
        };
        self.out
            .instruction(format!("{mnemonic} {{t{scratch}}}, #{first}, lsl #{shift}"));
        for (shift, chunk) in written {
            self.out
                .instruction(format!("movk {{t{scratch}}}, #{chunk}, lsl #{shift}"));
        }
    }

    fn give_back(&mut self, scratch: Option<usize>) {
        if let Some(scratch) = scratch {
            self.registers.release(scratch);
        }
    }

    fn sized(&self, register: Register, width: Width) -> String {
        match width {
            Width::Word => self.registers.name(register),
            Width::Half => self.registers.name_with(register, ":w"),
        }
    }
}
