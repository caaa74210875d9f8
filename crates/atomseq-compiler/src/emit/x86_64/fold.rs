//! Several steps as one instruction on x86-64, where words pass through memory operands or flags.
//! Each function tries one pattern at the step of this index, emits it and returns `true`, or emits
//! nothing.
//!
//! ```text
//! x = load p;  y = x + b;  store p, y              add  [p], b           update_in_memory
//! x = cas …;   exit if x != expected               lock cmpxchg; jne     exchange_or_leave
//! x = load p;  exit if x == b                      cmp  [p], b; je       with_memory_operand
//! x = load p;  y = a + x                           add  y, [p]           with_memory_operand
//! ```
//!
//! A word that disappears this way must be read nowhere else ([`Registers::used_once`]). The order
//! of accesses stays: the folded load is the access right before the instruction that takes it in.
//!
//! [`Registers::used_once`]: crate::emit::registers::Registers::used_once

use super::Emitter;
use super::operands::mnemonic;
use crate::ir::*;

impl Emitter<'_> {
    /// `load p; op; store p`, by a commit or a visible store, the words read nowhere else.
    pub(super) fn update_in_memory(&mut self, index: usize) -> bool {
        let [load, binary, commit] = match self.indexed.steps.get(index..index + 3) {
            Some([load, binary, commit]) => [&load.kind, &binary.kind, &commit.kind],
            _ => return false,
        };
        let StepKind::Load {
            to: loaded,
            from,
            width: Width::Word,
            ..
        } = load
        else {
            return false;
        };
        let StepKind::Binary {
            to: updated,
            operator,
            a: Operand::Register(a),
            b,
        } = binary
        else {
            return false;
        };
        let StepKind::Store {
            kind: StoreKind::Commit | StoreKind::Visible,
            to,
            value,
            width: Width::Word,
            ..
        } = commit
        else {
            return false;
        };
        let Some(mnemonic) = mnemonic(*operator) else {
            return false;
        };
        let (a, b) = match operator.commutes() && b.register() == Some(*loaded) {
            true => (b.register(), &Operand::Register(*a)),
            false => (Some(*a), b),
        };
        // Not where early returns join at the commit: they bring the value in a register, and this
        // instruction would compute it again. Not with the loaded word on both sides, for then it
        // is needed in a register.
        let matches = to.key() == from.key()
            && a == Some(*loaded)
            && value.register() == Some(*updated)
            && b.register() != Some(*loaded)
            && self.registers.used_once(*loaded)
            && self.registers.used_once(*updated)
            && !self.sequence.leaves_by_commit();
        if !matches || self.multiply(*operator) {
            return false;
        }
        let (b, scratch) = self.source(b);
        let memory = self.memory(from, 8);
        // *p = *p op b
        self.out
            .instruction(format!("{mnemonic} qword ptr {memory}, {b}"));
        self.give_back(scratch);
        true
    }

    /// `cas; if found != expected { return … }`: the zero flag of `cmpxchg` decides, and the word
    /// that was found needs no register.
    pub(super) fn exchange_or_leave(&mut self, index: usize) -> bool {
        let [exchange, exit] = match self.indexed.steps.get(index..index + 2) {
            Some([exchange, exit]) => [&exchange.kind, &exit.kind],
            _ => return false,
        };
        let (
            StepKind::CompareExchange {
                to,
                at,
                expected,
                new,
            },
            StepKind::Exit {
                comparison, exit, ..
            },
        ) = (exchange, exit)
        else {
            return false;
        };
        // By the rules, the step after a `cas` is the exit that is taken if it failed.
        if !self.registers.used_once(*to) {
            return false;
        }
        self.exchange(at, expected, new);
        self.leave(*comparison, *exit);
        true
    }

    /// `imul` has no form whose target is in memory.
    pub(super) fn multiply(&self, operator: BinaryOperator) -> bool {
        operator == BinaryOperator::Multiply
    }

    /// A load that the next step alone reads, as an operand that may be in memory.
    pub(super) fn with_memory_operand(&mut self, index: usize) -> bool {
        let [load, next] = match self.indexed.steps.get(index..index + 2) {
            Some([load, next]) => [&load.kind, &next.kind],
            _ => return false,
        };
        let StepKind::Load {
            to: loaded,
            from,
            width: Width::Word,
            ..
        } = load
        else {
            return false;
        };
        if !self.registers.used_once(*loaded) {
            return false;
        }
        match next {
            StepKind::Exit {
                comparison,
                a: Operand::Register(a),
                b,
                exit,
            } => {
                if [Some(*a), b.register()].contains(&Some(*loaded)) {
                    self.set_exit_status(*exit);
                }
                if b.register() == Some(*loaded) {
                    let a = self.registers.name(*a);
                    let memory = self.memory(from, 8);
                    // flags = a - *p
                    self.out.instruction(format!("cmp {a}, qword ptr {memory}"));
                } else if a == loaded {
                    let (b, scratch) = self.source(b);
                    let memory = self.memory(from, 8);
                    // flags = *p - b
                    self.out.instruction(format!("cmp qword ptr {memory}, {b}"));
                    self.give_back(scratch);
                } else {
                    return false;
                }
                self.leave(*comparison, *exit);
                true
            }
            StepKind::Binary { to, operator, a, b } => {
                let (a, b) = match operator.commutes() && a.register() == Some(*loaded) {
                    true => (b, a),
                    false => (a, b),
                };
                let (Some(a), Some(mnemonic)) = (a.register(), mnemonic(*operator)) else {
                    return false;
                };
                if b.register() != Some(*loaded) {
                    return false;
                }
                let memory = self.memory(from, 8);
                let to = self.copy_or_replace(a, *to, index + 1);
                // to = a op *p
                self.out
                    .instruction(format!("{mnemonic} {to}, qword ptr {memory}"));
                true
            }
            _ => false,
        }
    }
}
