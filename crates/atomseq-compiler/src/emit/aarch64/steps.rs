//! The steps, the same in every form.

use super::Emitter;
use crate::emit::builder::label;
use crate::emit::by_commit;
use crate::ir::*;

impl Emitter<'_> {
    pub(super) fn steps(&mut self) {
        let sequence = self.sequence;
        for (index, step) in sequence.steps.iter().enumerate() {
            self.step(index);
            self.registers.end_of_step(index);
            self.out.end_of_step(step);
        }
    }

    pub(super) fn step(&mut self, index: usize) {
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
            StepKind::CompareExchange {
                to,
                at,
                expected,
                new,
            } => self.exchange(*to, at, expected, new),
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
                self.order_claim();
                if sequence.steps[index].is_commit() && sequence.leaves_by_commit() {
                    self.out.instruction("mov {status:w}, wzr");
                    self.out.directive(format!("{}:", label::COMMIT));
                }
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

    pub(super) fn binary(
        &mut self,
        to: Register,
        operator: BinaryOperator,
        a: &Operand,
        b: &Operand,
    ) {
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
                Add | Subtract,
                Operand::Constant(Constant {
                    value: Some(value), ..
                }),
            ) if value % 4096 == 0 && *value < 1 << 24 => {
                (format!("#{}, lsl #12", value >> 12), None)
            }
            // Ones from the lowest bit on.
            (
                And,
                Operand::Constant(Constant {
                    value: Some(value), ..
                }),
            ) if *value != u64::MAX && (value + 1).is_power_of_two() && *value != 0 => {
                (format!("#{value}"), None)
            }
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

    /// Acquires; what was there is in `to` afterwards.
    pub(super) fn exchange(
        &mut self,
        to: Register,
        at: &Address,
        expected: &Operand,
        new: &Operand,
    ) {
        use label::{EXCHANGE, EXCHANGED};
        let (address, address_scratch) = self.bare_address(at);
        let (expected, expected_scratch) = self.in_register(expected);
        let (new, new_scratch) = self.in_register(new);
        let failed = self.registers.scratch();
        let to = self.registers.define(to);
        // The scratch register is named in a comment: what one of the two uses is an operand of
        // both.
        let lse = format!("mov {to}, {expected}\ncasa {to}, {new}, [{address}] // {{t{failed}:w}}");
        let exclusive = [
            format!("{EXCHANGE}: ldaxr {to}, [{address}]"),
            format!("cmp {to}, {expected}"),
            format!("b.ne {EXCHANGED}f"),
            format!("stxr {{t{failed}:w}}, {new}, [{address}]"),
            format!("cbnz {{t{failed}:w}}, {EXCHANGE}b"),
            format!("{EXCHANGED}:"),
        ];
        self.out.interlocked(lse, exclusive.join("\n"));
        self.claimed = true;
        self.registers.release(failed);
        self.give_back(new_scratch);
        self.give_back(expected_scratch);
        self.give_back(address_scratch);
    }

    /// Orders the compare-and-swap before every store that may follow it: a reader that sees such a
    /// store sees the claim. Emitted before the first of these stores or of the branches to the
    /// commit, so that each path has one barrier.
    fn order_claim(&mut self) {
        if self.claimed {
            self.out.instruction("dmb ishst");
            self.claimed = false;
        }
    }

    /// Leaves if the comparison holds.
    pub(super) fn leave(&mut self, comparison: Comparison, a: &Operand, b: &Operand, exit: usize) {
        let target = match by_commit(self.sequence, exit) {
            Some(said) => {
                self.order_claim();
                if self.pending != said {
                    self.pending = said;
                    self.out.instruction(format!("mov {{status:w}}, #{said}"));
                }
                format!("{}f", label::COMMIT)
            }
            None => self.leaving.target(self.form, exit),
        };
        let (a, a_scratch) = self.in_register(a);
        let zero = matches!(b, Operand::Constant(Constant { value: Some(0), .. }));
        match comparison {
            Comparison::Equal if zero => self.out.branch(format!("cbz {a},"), &target, exit),
            Comparison::NotEqual if zero => self.out.branch(format!("cbnz {a},"), &target, exit),
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
                self.out.branch(format!("b.{condition}"), &target, exit);
                self.give_back(b_scratch);
            }
        }
        self.give_back(a_scratch);
        self.results.push(self.result(&self.sequence.exits[exit]));
    }

    pub(super) fn copy(&mut self, to: Register, from: Register, words: &Operand) {
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
}
