//! How operands are written: memory, registers, immediates.

use super::Emitter;
use crate::ir::*;

impl Emitter<'_> {
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

    /// A register or an immediate; a scratch register for a constant too large.
    pub(super) fn source(&mut self, operand: &Operand) -> (String, Option<usize>) {
        match operand {
            Operand::Constant(constant) if constant.value.is_none_or(fits) => {
                (self.out.immediate(constant), None)
            }
            other => self.in_register(other),
        }
    }

    pub(super) fn in_register(&mut self, operand: &Operand) -> (String, Option<usize>) {
        match operand {
            Operand::Register(register) => (self.registers.name(*register), None),
            Operand::Constant(constant) => {
                let constant = self.out.immediate(constant);
                let scratch = self.registers.scratch();
                self.out
                    .instruction(format!("mov {{t{scratch}}}, {constant}"));
                (format!("{{t{scratch}}}"), Some(scratch))
            }
        }
    }

    pub(super) fn give_back(&mut self, scratch: Option<usize>) {
        if let Some(scratch) = scratch {
            self.registers.release(scratch);
        }
    }

    pub(super) fn sized(&self, register: Register, width: Width) -> (String, &'static str) {
        match width {
            Width::Word => (self.registers.name(register), size(width)),
            Width::Half => (self.registers.name_with(register, ":e"), size(width)),
        }
    }
}

pub fn mnemonic(operator: BinaryOperator) -> Option<&'static str> {
    match operator {
        BinaryOperator::Add => Some("add"),
        BinaryOperator::Subtract => Some("sub"),
        BinaryOperator::Multiply => Some("imul"),
        BinaryOperator::And => Some("and"),
        BinaryOperator::Or => Some("or"),
        BinaryOperator::Xor => Some("xor"),
        BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight | BinaryOperator::Minimum => None,
    }
}

/// Does a literal fit a sign-extended 32-bit immediate?
pub fn fits(value: u64) -> bool {
    i32::try_from(value as i64).is_ok()
}

pub fn size(width: Width) -> &'static str {
    match width {
        Width::Word => "qword",
        Width::Half => "dword",
    }
}
