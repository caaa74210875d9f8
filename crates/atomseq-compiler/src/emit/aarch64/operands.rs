//! How operands are written on AArch64: memory, registers, and constants a few bits at a time.

use super::Emitter;
use crate::ir::*;

impl Emitter<'_> {
    /// Returns a memory operand: `[base, #offset]`, without what it lacks.
    pub(super) fn memory(&mut self, address: &Address, width: Width) -> String {
        let base = self.registers.name(address.base);
        match self.out.offset(&address.offset, width.bytes()) {
            None => format!("[{base}]"),
            Some(offset) => format!("[{base}, #{offset}]"),
        }
    }

    /// Returns an address in a register, for instructions that take no offset: those that acquire,
    /// release or are exclusive.
    pub(super) fn bare_address(&mut self, address: &Address) -> (String, Option<usize>) {
        let base = self.registers.name(address.base);
        let Some(offset) = self.out.offset(&address.offset, Width::Word.bytes()) else {
            return (base, None);
        };
        let scratch = self.registers.scratch();
        let name = format!("{{t{scratch}}}");
        // scratch = offset: one move holds every offset within the checked range.
        self.out.instruction(format!("mov {name}, #{offset}"));
        // scratch = base + scratch
        self.out.instruction(format!("add {name}, {base}, {name}"));
        (name, Some(scratch))
    }

    /// Returns a word to be stored, at the width of the store; zero has a register of its own.
    pub(super) fn stored(&mut self, value: &Operand, width: Width) -> (String, Option<usize>) {
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

    /// Returns a word in a register: its own, or a scratch register for a constant. The caller
    /// gives the scratch register back.
    pub(super) fn in_register(&mut self, operand: &Operand) -> (String, Option<usize>) {
        let constant = match operand {
            Operand::Register(register) => return (self.registers.name(*register), None),
            Operand::Constant(constant) => constant,
        };
        if self.out.is_in_register(constant) {
            return (self.out.immediate(constant), None);
        }
        let scratch = self.registers.scratch();
        match constant.value {
            None => {
                let named = self.out.immediate(constant);
                // scratch = constant, of at most sixteen bits
                self.out
                    .instruction(format!("mov {{t{scratch}}}, #{named}"));
            }
            Some(value) => self.literal(scratch, value),
        }
        (format!("{{t{scratch}}}"), Some(scratch))
    }

    /// Loads a literal sixteen bits at a time, starting from all ones where that takes fewer
    /// instructions.
    pub(super) fn literal(&mut self, scratch: usize, value: u64) {
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
        // scratch = these sixteen bits, all others 0 (movz) or 1 (movn, of the inverted bits)
        self.out
            .instruction(format!("{mnemonic} {{t{scratch}}}, #{first}, lsl #{shift}"));
        for (shift, chunk) in written {
            // These sixteen bits of scratch, the others kept.
            self.out
                .instruction(format!("movk {{t{scratch}}}, #{chunk}, lsl #{shift}"));
        }
    }

    /// Gives a scratch register back, if one was taken.
    pub(super) fn give_back(&mut self, scratch: Option<usize>) {
        if let Some(scratch) = scratch {
            self.registers.release(scratch);
        }
    }

    /// Returns a register at the width of an access.
    pub(super) fn sized(&self, register: Register, width: Width) -> String {
        match width {
            Width::Word => self.registers.name(register),
            Width::Half => self.registers.name_with(register, ":w"),
        }
    }
}
