//! The steps on x86-64, the same in every form.
//!
//! In the comments, `to`, `a`, `b` and `p` are the operands of a step, and `=` is what the
//! instruction does. A function that takes an `index` asks by it which words die at this step.

use super::Emitter;
use super::operands::{fits, mnemonic, size};
use crate::emit::builder::label;
use crate::emit::{Line, by_commit};
use crate::ir::*;

impl Emitter<'_> {
    /// Emits all steps, folding where it can.
    pub(super) fn steps(&mut self) {
        let mut index = 0;
        while index < self.indexed.steps.len() {
            // Steps that are folded into one instruction end together: temporaries are freed after
            // the last of them.
            index += if self.update_in_memory(index) {
                3
            } else if self.exchange_or_leave(index) || self.with_memory_operand(index) {
                2
            } else {
                self.step(index);
                1
            };
            self.registers.end_of_step(index - 1);
            self.out.end_of_step(self.indexed.steps[index - 1]);
        }
    }

    /// Emits one step.
    pub(super) fn step(&mut self, index: usize) {
        let step = self.indexed.steps[index];
        match &step.kind {
            StepKind::Load {
                to, from, width, ..
            } => {
                // x86-64 orders loads after loads: every load is an acquire.
                let bytes = width.bytes();
                let memory = self.memory(from, bytes);
                self.registers.define(*to);
                let (to, size) = self.sized(*to, *width);
                // to = *p; a half is zero-extended, as every write of a 32-bit register.
                self.out
                    .instruction(format!("mov {to}, {size} ptr {memory}"));
            }
            StepKind::Cpu { to } => {
                let to = self.registers.define(*to);
                // to = rseq->cpu_id, sign-extended
                self.out
                    .instruction(format!("movsxd {to}, dword ptr fs:[{{rseq}} + 4]"));
            }
            StepKind::CompareExchange {
                to,
                at,
                expected,
                new,
            } => {
                self.exchange(at, expected, new);
                let to = self.registers.define(*to);
                // to = what was there
                self.out.instruction(format!("mov {to}, rax"));
            }
            StepKind::Binary { to, operator, a, b } => self.binary(index, *to, *operator, a, b),
            StepKind::Exit {
                comparison,
                a,
                b,
                exit,
            } => {
                self.set_exit_status(*exit);
                let (a_name, a_scratch) = self.in_register(a);
                match b {
                    Operand::Constant(Constant { value: Some(0), .. }) => {
                        let is_zero_test =
                            matches!(comparison, Comparison::Equal | Comparison::NotEqual);
                        // flags = a & a: shorter than a comparison with 0.
                        if !is_zero_test || !self.zero_flag_is_set_for(&a_name) {
                            self.out.instruction(format!("test {a_name}, {a_name}"));
                        }
                    }
                    _ => {
                        let (b, scratch) = self.source(b);
                        // flags = a - b
                        self.out.instruction(format!("cmp {a_name}, {b}"));
                        self.give_back(scratch);
                    }
                }
                self.give_back(a_scratch);
                self.leave(*comparison, *exit);
            }
            StepKind::Store {
                to, value, width, ..
            } => {
                if step.is_commit() {
                    self.before_commit();
                }
                // x86-64 orders stores after loads and stores: every store is a release.
                let (value, scratch) = match value {
                    Operand::Register(register) => (self.sized(*register, *width).0, None),
                    Operand::Constant(Constant {
                        value: Some(value), ..
                    }) if *width == Width::Half => ((*value as u32 as i32).to_string(), None),
                    Operand::Constant(constant)
                        if *width == Width::Half && self.out.is_in_register(constant) =>
                    {
                        let register = self.out.immediate(constant);
                        (register.replace('}', ":e}"), None)
                    }
                    Operand::Constant(_) => self.source(value),
                };
                let memory = self.memory(to, width.bytes());
                let size = size(*width);
                // *p = value
                self.out
                    .instruction(format!("mov {size} ptr {memory}, {value}"));
                self.give_back(scratch);
            }
            StepKind::Copy { to, from, words } => self.copy(index, *to, *from, words),
        }
    }

    /// Whether the zero flag says already if this register is zero: right after the instruction
    /// that computed it.
    pub(super) fn zero_flag_is_set_for(&self, name: &str) -> bool {
        let computes = |mnemonic: &&str| {
            let begin = format!("{mnemonic} {name}, ");
            matches!(self.out.last(), Some(Line::Text(text)) if text.starts_with(&begin))
        };
        ["add", "sub", "and", "or", "xor"].iter().any(computes)
    }

    /// Emits a computation.
    pub(super) fn binary(
        &mut self,
        index: usize,
        to: Register,
        operator: BinaryOperator,
        a: &Operand,
        b: &Operand,
    ) {
        use BinaryOperator::*;
        match (operator, a, b) {
            (Minimum | Maximum, Operand::Register(a), b) => {
                // flags = a - b; to = b; if a < b (or a > b), to = a. `to` shares a register with
                // neither: it is written between their reads. `mov` leaves the flags alone.
                let condition = if operator == Minimum { "b" } else { "a" };
                let a = self.registers.name(*a);
                let (b, scratch) = self.source(b);
                let to = self.registers.define(to);
                self.out.instruction(format!("cmp {a}, {b}"));
                self.out.instruction(format!("mov {to}, {b}"));
                self.out.instruction(format!("cmov{condition} {to}, {a}"));
                self.give_back(scratch);
            }
            (Add, Operand::Register(x), Operand::Register(y))
                if !self.registers.dies(*x, index) && !self.registers.dies(*y, index) =>
            {
                let (x, y) = (self.registers.name(*x), self.registers.name(*y));
                let to = self.registers.define(to);
                // to = x + y: three operands, because both x and y are read again.
                self.out.instruction(format!("lea {to}, [{x} + {y}]"));
            }
            (Add | Subtract, Operand::Register(x), Operand::Constant(constant))
                if !self.registers.dies(*x, index) =>
            {
                let offset = match (operator, constant.value) {
                    (Add, None) => self.out.immediate(constant),
                    (Add, Some(value)) if fits(value) => (value as i64).to_string(),
                    (Subtract, Some(value)) if fits(value.wrapping_neg()) => {
                        (value.wrapping_neg() as i64).to_string()
                    }
                    // Too large; or named, and rustc prints it without its sign: subtract it.
                    _ => return self.two_address(index, to, operator, a, b),
                };
                let x = self.registers.name(*x);
                let to = self.registers.define(to);
                // to = x + offset
                self.out.instruction(format!("lea {to}, [{x} + {offset}]"));
            }
            (Multiply, Operand::Register(x), Operand::Constant(constant))
                if constant.value.is_none_or(fits) && !self.out.is_in_register(constant) =>
            {
                let x = self.registers.name(*x);
                let constant = self.out.immediate(constant);
                let to = self.registers.define(to);
                // to = x * constant: the one instruction with three operands.
                self.out.instruction(format!("imul {to}, {x}, {constant}"));
            }
            (ShiftLeft | ShiftRight, a, b) => {
                let mnemonic = if operator == ShiftLeft { "shl" } else { "shr" };
                let count = match b {
                    Operand::Constant(Constant {
                        value: Some(value), ..
                    }) => (value & 63).to_string(),
                    b => {
                        // rcx = count: a shift takes its count from cl, modulo 64.
                        let (b, scratch) = self.source(b);
                        if !self.fixed.contains(&"rcx") {
                            self.fixed.push("rcx");
                        }
                        self.out.instruction(format!("mov rcx, {b}"));
                        self.give_back(scratch);
                        "cl".to_string()
                    }
                };
                let to = match a {
                    Operand::Register(a) => self.copy_or_replace(*a, to, index),
                    Operand::Constant(a) => self.constant_into(a, to),
                };
                // to = to << count, or to >> count
                self.out.instruction(format!("{mnemonic} {to}, {count}"));
            }
            _ => self.two_address(index, to, operator, a, b),
        }
    }

    /// Emits `to = a; to op= b`, without the first if `a` dies here, or `b` and the operator
    /// commutes.
    pub(super) fn two_address(
        &mut self,
        index: usize,
        to: Register,
        operator: BinaryOperator,
        a: &Operand,
        b: &Operand,
    ) {
        let (mut a, mut b) = (a, b);
        if let (Operand::Register(x), Operand::Register(y)) = (a, b) {
            if operator.commutes()
                && !self.registers.dies(*x, index)
                && self.registers.dies(*y, index)
            {
                (a, b) = (b, a);
            }
        }
        // `b` gets its name first: `to` may then take over the register of `a`.
        let (source, scratch) = self.source(b);
        let to = match a {
            Operand::Register(a) => self.copy_or_replace(*a, to, index),
            Operand::Constant(a) => self.constant_into(a, to),
        };
        let mnemonic =
            mnemonic(operator).expect("shifts, minimum and maximum are emitted elsewhere");
        // to = to op b
        self.out.instruction(format!("{mnemonic} {to}, {source}"));
        self.give_back(scratch);
    }

    /// Gives `to` the value of `from`: in its register if that dies here, or by a move.
    pub(super) fn copy_or_replace(&mut self, from: Register, to: Register, index: usize) -> String {
        if self.registers.dies(from, index) {
            return self.registers.replace(from, to);
        }
        let from = self.registers.name(from);
        let to = self.registers.define(to);
        // to = from
        self.out.instruction(format!("mov {to}, {from}"));
        to
    }

    /// Gives `to` the value of a constant.
    pub(super) fn constant_into(&mut self, constant: &Constant, to: Register) -> String {
        let constant = self.out.immediate(constant);
        let to = self.registers.define(to);
        // to = constant
        self.out.instruction(format!("mov {to}, {constant}"));
        to
    }

    /// Emits a copy, a loop that counts down. The commit is not reached before it ends, and a
    /// restart begins it anew:
    ///
    /// ```text
    ///       mov  index, words
    ///       jmp  test
    /// copy: mov  word, [from + 8*index]
    ///       mov  [to + 8*index], word
    /// test: sub  index, 1
    ///       jns  copy
    /// ```
    pub(super) fn copy(&mut self, step: usize, to: Register, from: Register, words: &Operand) {
        // A count that no later step reads becomes the index itself.
        let counted = words
            .register()
            .filter(|words| self.registers.dies(*words, step) && ![to, from].contains(words));
        let (to, from) = (self.registers.name(to), self.registers.name(from));
        let (index, index_scratch) = match counted {
            Some(words) => (self.registers.name(words), None),
            None => {
                let (words, words_scratch) = self.source(words);
                let index = self.registers.scratch();
                // index = words
                self.out.instruction(format!("mov {{t{index}}}, {words}"));
                self.give_back(words_scratch);
                (format!("{{t{index}}}"), Some(index))
            }
        };
        let word = self.registers.scratch();
        self.out.as_one(|out| {
            // To the test first: a copy of no words does nothing.
            out.instruction(format!("jmp {}f", label::COPY_TEST));
            out.directive(format!("{}:", label::COPY));
            // word = from[index]
            out.instruction(format!("mov {{t{word}}}, qword ptr [{from} + 8*{index}]"));
            // to[index] = word
            out.instruction(format!("mov qword ptr [{to} + 8*{index}], {{t{word}}}"));
            out.directive(format!("{}:", label::COPY_TEST));
            // index -= 1; if index >= 0 goto copy. A count of 2^63 or more ends at once; no memory
            // has so many words.
            out.instruction(format!("sub {index}, 1"));
            out.instruction(format!("jns {}b", label::COPY));
        });
        self.registers.release(word);
        self.give_back(index_scratch);
    }

    /// Emits the compare-and-swap. Afterwards rax holds what was there, and the zero flag says
    /// whether that was expected. The instruction is a full barrier.
    pub(super) fn exchange(&mut self, at: &Address, expected: &Operand, new: &Operand) {
        self.fixed.push("rax");
        let (expected, expected_scratch) = self.source(expected);
        // rax = expected
        self.out.instruction(format!("mov rax, {expected}"));
        self.give_back(expected_scratch);
        let (new, scratch) = self.in_register(new);
        let memory = self.memory(at, 8);
        // if *p == rax { *p = new } else { rax = *p }
        self.out
            .instruction(format!("lock cmpxchg qword ptr {memory}, {new}"));
        self.give_back(scratch);
    }

    /// Sets the status of an exit that leads through the commit, before the comparison that decides
    /// about it. A path that does not take the exit sets it again: at the next such exit, or at the
    /// commit.
    pub(super) fn set_exit_status(&mut self, exit: usize) {
        if let Some(number) = by_commit(self.sequence, exit) {
            if self.pending != number {
                self.pending = number;
                // status = number
                self.out
                    .instruction(format!("mov {}, {number}", self.status));
            }
        }
    }

    /// Emits the label where the ways out through the commit join the straight path, whose status
    /// is 0.
    pub(super) fn before_commit(&mut self) {
        if self.sequence.leaves_by_commit() {
            // status = 0
            self.out.instruction(format!("xor {0}, {0}", self.status));
            self.out.directive(format!("{}:", label::COMMIT));
        }
    }

    /// Emits the branch that leaves if the comparison holds, by the flags. Comparisons are
    /// unsigned: below, above.
    pub(super) fn leave(&mut self, comparison: Comparison, exit: usize) {
        let condition = match comparison {
            Comparison::Equal => "e",
            Comparison::NotEqual => "ne",
            Comparison::Less => "b",
            Comparison::LessOrEqual => "be",
            Comparison::Greater => "a",
            Comparison::GreaterOrEqual => "ae",
        };
        let target = match by_commit(self.sequence, exit) {
            Some(_) => format!("{}f", label::COMMIT),
            None => self.leaving.target(self.form, exit),
        };
        self.out.branch(format!("j{condition}"), &target, exit);
        self.results.push(self.result(&self.sequence.exits[exit]));
    }
}
