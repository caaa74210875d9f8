//! The steps on AArch64, the same in every form.
//!
//! In the comments, `to`, `a`, `b` and `p` are the operands of a step, and `=` is what the
//! instruction does.

use super::Emitter;
use crate::emit::builder::label;
use crate::emit::by_commit;
use crate::ir::*;

impl Emitter<'_> {
    /// Emits all steps, each by itself: nothing is folded.
    pub(super) fn steps(&mut self) {
        let sequence = self.sequence;
        for (index, step) in sequence.steps.iter().enumerate() {
            self.step(index);
            self.registers.end_of_step(index);
            self.out.end_of_step(step);
        }
    }

    /// Emits one step.
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
                    // to = *p, before every later access
                    self.out.load_acquire(format!("{to}, [{address}]"));
                    self.give_back(scratch);
                } else {
                    let memory = self.memory(from, *width);
                    self.registers.define(*to);
                    let to = self.sized(*to, *width);
                    // to = *p; a half is zero-extended, as every write of a 32-bit register.
                    self.out.instruction(format!("ldr {to}, {memory}"));
                }
            }
            StepKind::Cpu { to } => {
                let to = self.registers.define(*to);
                // to = rseq->cpu_id, sign-extended
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
                    // status = 0 on the straight path; the ways out through the commit join here.
                    self.out.instruction("mov {status:w}, wzr");
                    self.out.directive(format!("{}:", label::COMMIT));
                }
                let (value, value_scratch) = self.stored(value, *width);
                if *release {
                    let (address, scratch) = self.bare_address(to);
                    // *p = value, after every earlier access
                    self.out.instruction(format!("stlr {value}, [{address}]"));
                    self.give_back(scratch);
                } else {
                    let memory = self.memory(to, *width);
                    // *p = value
                    self.out.instruction(format!("str {value}, {memory}"));
                }
                self.give_back(value_scratch);
            }
            StepKind::Copy { to, from, words } => self.copy(*to, *from, words),
        }
    }

    /// Emits a computation. A literal becomes an immediate where the instruction has one for it.
    pub(super) fn binary(
        &mut self,
        to: Register,
        operator: BinaryOperator,
        a: &Operand,
        b: &Operand,
    ) {
        use BinaryOperator::*;
        let (a, a_scratch) = self.in_register(a);
        if let (Xor, Some(u64::MAX)) = (operator, b.literal()) {
            let to = self.registers.define(to);
            // to = !a
            self.out.instruction(format!("mvn {to}, {a}"));
            return self.give_back(a_scratch);
        }
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
            // Ones from the lowest bit on: the simplest of the masks that `and` can hold.
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
            Minimum | Maximum => {
                let condition = if operator == Minimum { "lo" } else { "hi" };
                // flags = a - b; to = a < b (or a > b) ? a : b
                self.out.instruction(format!("cmp {a}, {b}"));
                self.out
                    .instruction(format!("csel {to}, {a}, {b}, {condition}"));
                self.give_back(a_scratch);
                return self.give_back(b_scratch);
            }
        };
        // to = a op b
        self.out.instruction(format!("{mnemonic} {to}, {a}, {b}"));
        self.give_back(a_scratch);
        self.give_back(b_scratch);
    }

    /// Emits the compare-and-swap, which acquires. Afterwards `to` holds what was there.
    ///
    /// ```text
    /// with LSE:                             without:
    ///     mov  to, expected                 47: ldaxr to, [address]        to = *p, monitored
    ///     casa to, new, [address]               cmp   to, expected
    ///                                           b.ne  48f                  another word: done
    ///                                           stxr  failed, new, [address]
    ///                                           cbnz  failed, 47b          lost the monitor: retry
    ///                                       48:
    /// ```
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
        // LSE needs no scratch register; a comment names it, because both texts must name the same
        // operands.
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

    /// Orders the compare-and-swap before the stores that follow it: another CPU that sees such a
    /// store sees the claim as well. The barrier stands before the first of these stores, or before
    /// the first branch to the commit, so that each path has exactly one.
    fn order_claim(&mut self) {
        if self.claimed {
            // Earlier stores become visible before later ones.
            self.out.instruction("dmb ishst");
            self.claimed = false;
        }
    }

    /// Emits an exit: the status, if the way out leads through the commit, the comparison, and the
    /// branch that leaves if it holds. Comparisons are unsigned: lower, higher.
    pub(super) fn leave(&mut self, comparison: Comparison, a: &Operand, b: &Operand, exit: usize) {
        let target = match by_commit(self.sequence, exit) {
            Some(number) => {
                self.order_claim();
                if self.pending != number {
                    self.pending = number;
                    // status = number
                    self.out.instruction(format!("mov {{status:w}}, #{number}"));
                }
                format!("{}f", label::COMMIT)
            }
            None => self.leaving.target(self.form, exit),
        };
        let (a, a_scratch) = self.in_register(a);
        let zero = matches!(b, Operand::Constant(Constant { value: Some(0), .. }));
        match comparison {
            // if a == 0 goto target; if a != 0 goto target: no flags needed.
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
                // flags = a - b; if the condition holds goto target
                self.out.instruction(format!("cmp {a}, {b}"));
                self.out.branch(format!("b.{condition}"), &target, exit);
                self.give_back(b_scratch);
            }
        }
        self.give_back(a_scratch);
        self.results.push(self.result(&self.sequence.exits[exit]));
    }

    /// Emits a copy, a loop that counts down. The commit is not reached before it ends, and a
    /// restart begins it anew:
    ///
    /// ```text
    ///       mov  index, words
    ///       b    test
    /// copy: ldr  word, [from, index, lsl #3]
    ///       str  word, [to, index, lsl #3]
    /// test: subs index, index, #1
    ///       b.pl copy
    /// ```
    pub(super) fn copy(&mut self, to: Register, from: Register, words: &Operand) {
        let (to, from) = (self.registers.name(to), self.registers.name(from));
        let (words, words_scratch) = self.in_register(words);
        let (index, word) = (self.registers.scratch(), self.registers.scratch());
        self.out.as_one(|out| {
            // index = words; to the test first: a copy of no words does nothing.
            out.instruction(format!("mov {{t{index}}}, {words}"));
            out.instruction(format!("b {}f", label::COPY_TEST));
            out.directive(format!("{}:", label::COPY));
            // word = from[index]
            out.instruction(format!("ldr {{t{word}}}, [{from}, {{t{index}}}, lsl #3]"));
            // to[index] = word
            out.instruction(format!("str {{t{word}}}, [{to}, {{t{index}}}, lsl #3]"));
            out.directive(format!("{}:", label::COPY_TEST));
            // index -= 1; if index >= 0 goto copy. A count of 2^63 or more ends at once; no memory
            // has so many words.
            out.instruction(format!("subs {{t{index}}}, {{t{index}}}, #1"));
            out.instruction(format!("b.pl {}b", label::COPY));
        });
        self.registers.release(index);
        self.registers.release(word);
        self.give_back(words_scratch);
    }
}
