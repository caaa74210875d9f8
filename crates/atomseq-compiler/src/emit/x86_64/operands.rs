//! How operands are written on x86-64: memory, registers, immediates.

use super::Emitter;
use crate::ir::*;

impl Emitter<'_> {
    /// Returns a memory operand: `[base + index + offset]`, without what it lacks.
    pub(super) fn memory(&mut self, address: &Address, bytes: u32) -> String {
        let base = match self.indexed.sum(address.base) {
            None => self.registers.name(address.base),
            Some((base, index)) => {
                let (base, index) = (self.registers.name(base), self.registers.name(index));
                format!("{base} + {index}")
            }
        };
        match self.out.offset(&address.offset, bytes) {
            None => format!("[{base}]"),
            Some(offset) => format!("[{base} + {offset}]"),
        }
    }

    /// Returns a word as a source: a register, an immediate, or a scratch register for a constant
    /// that is no sign-extended 32-bit immediate. The caller gives the scratch register back.
    pub(super) fn source(&mut self, operand: &Operand) -> (String, Option<usize>) {
        match operand {
            Operand::Constant(constant) if constant.value.is_none_or(fits) => {
                (self.out.immediate(constant), None)
            }
            other => self.in_register(other),
        }
    }

    /// Returns a word in a register: its own, or a scratch register for a constant.
    pub(super) fn in_register(&mut self, operand: &Operand) -> (String, Option<usize>) {
        match operand {
            Operand::Register(register) => (self.registers.name(*register), None),
            Operand::Constant(constant) if self.out.is_in_register(constant) => {
                (self.out.immediate(constant), None)
            }
            Operand::Constant(constant) => {
                let constant = self.out.immediate(constant);
                let scratch = self.registers.scratch();
                // scratch = constant
                self.out
                    .instruction(format!("mov {{t{scratch}}}, {constant}"));
                (format!("{{t{scratch}}}"), Some(scratch))
            }
        }
    }

    /// Gives a scratch register back, if one was taken.
    pub(super) fn give_back(&mut self, scratch: Option<usize>) {
        if let Some(scratch) = scratch {
            self.registers.release(scratch);
        }
    }

    /// Returns a register at the width of an access, and the width's name.
    pub(super) fn sized(&self, register: Register, width: Width) -> (String, &'static str) {
        match width {
            Width::Word => (self.registers.name(register), size(width)),
            Width::Half => (self.registers.name_with(register, ":e"), size(width)),
        }
    }
}

/// Returns the mnemonic of operators that are one two-address instruction.
pub fn mnemonic(operator: BinaryOperator) -> Option<&'static str> {
    match operator {
        BinaryOperator::Add => Some("add"),
        BinaryOperator::Subtract => Some("sub"),
        BinaryOperator::Multiply => Some("imul"),
        BinaryOperator::And => Some("and"),
        BinaryOperator::Or => Some("or"),
        BinaryOperator::Xor => Some("xor"),
        BinaryOperator::ShiftLeft
        | BinaryOperator::ShiftRight
        | BinaryOperator::Minimum
        | BinaryOperator::Maximum => None,
    }
}

/// Whether a literal is a sign-extended 32-bit immediate.
pub fn fits(value: u64) -> bool {
    i32::try_from(value as i64).is_ok()
}

/// Returns the name of an access's width.
pub fn size(width: Width) -> &'static str {
    match width {
        Width::Word => "qword",
        Width::Half => "dword",
    }
}
