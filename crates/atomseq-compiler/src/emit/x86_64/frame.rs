//! Frame.

use super::Emitter;
use crate::emit::builder::label;
use crate::emit::{Leaving, Place, aborted_status};
use crate::forms::Protection;
use crate::ir::*;

impl Emitter<'_> {
    /// Returns where the slot's address is, if it tells how the section was left.
    pub(super) fn on_cpu(&mut self) -> Option<Place> {
        let slot = self.sequence.slots().next().map(|(register, _)| register);
        // The slot's address is still needed when a way out through the commit says which it is.
        let telling =
            slot.filter(|_| self.leaving == Leaving::Status && !self.sequence.leaves_by_commit());
        if let Some(slot) = telling {
            self.registers.keep(slot);
        }
        self.arm(telling.is_none());
        self.out.start();
        self.slots();
        self.steps();
        self.out.end();
        self.out_of_line();
        self.out.descriptor();
        self.results.push(self.result(&self.sequence.end));
        telling.map(|slot| self.registers.place(&Operand::Register(slot)))
    }

    fn arm(&mut self, needs_status: bool) {
        if self.leaving == Leaving::Status && needs_status {
            self.out.instruction("xor {status:e}, {status:e}");
        }
        let scratch = self.registers.scratch();
        // The descriptor follows in the template, in its own section.
        self.out.instruction(format!(
            "lea {{t{scratch}}}, [rip + {}f]",
            label::DESCRIPTOR
        ));
        self.out
            .instruction(format!("mov qword ptr fs:[{{rseq}} + 8], {{t{scratch}}}"));
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
            if self.leaving == Leaving::Status && !self.sequence.leaves_by_commit() {
                self.status = self.registers.name_with(register, ":e");
            }
            self.out
                .instruction(format!("movsxd {slot}, dword ptr fs:[{{rseq}} + 4]"));
            // Memory operands: two instructions and a register less than words loaded before.
            self.out
                .instruction(format!("imul {slot}, qword ptr [{{area}} + {{stride}}]"));
            self.out
                .instruction(format!("add {slot}, qword ptr [{{area}} + {{base}}]"));
            self.out.instruction(format!("cmp dword ptr [{slot}], 0"));
            self.out.instruction(format!("jne {closed}"));
        }
    }

    /// What is reached only when something happened, kept away from the fast path.
    fn out_of_line(&mut self) {
        self.out
            .directive(".pushsection .text.unlikely.atomseq, \"ax\", @progbits");
        // ud1 edi, [rip + signature]: the four bytes before the abort address are the signature.
        self.out.directive(".byte 0x0f, 0xb9, 0x3d");
        self.out.directive(".long 0x53053053");
        self.out.directive(format!("{}:", label::ABORT));
        match self.leaving {
            Leaving::Labels => self.out.instruction("jmp {aborted}"),
            Leaving::Status => {
                let aborted = aborted_status(self.sequence);
                let register = self.status.clone();
                let mut arrive = |at: Option<usize>, status: usize| {
                    if let Some(at) = at {
                        self.out.directive(format!("{at}:"));
                    }
                    self.out.instruction(format!("mov {register}, {status}"));
                    self.out.instruction(format!("jmp {}b", label::END));
                };
                arrive(None, aborted);
                arrive(Some(label::CLOSED), aborted + 1);
                let exits = &self.sequence.exits;
                let apart = |exit: &usize| exits[*exit].commit.is_none();
                for exit in (0..exits.len()).filter(apart) {
                    arrive(Some(label::EXIT + exit), exit + 1);
                }
            }
        }
        self.out.directive(".popsection");
    }

    pub(super) fn signal(&mut self, protection: Protection) {
        if self.leaving == Leaving::Status {
            self.out.instruction("xor {status:e}, {status:e}");
        }
        self.out.start();
        self.steps();
        self.out.end();
        self.results.push(self.result(&self.sequence.end));
        self.exits();
        // The label lies in the clone's own section: only a prefix keeps the branch as long as the
        // original's, which leads to another section.
        let branch = |instruction: &str| format!("{{{{disp32}}}} {instruction}");
        // The call pushes the place behind it.
        self.out
            .protect(protection, &["call qword ptr [rsp]"], branch);
    }

    /// Where branches lead. In another section, so every branch has its long form.
    fn exits(&mut self) {
        if self.sequence.exits.is_empty() {
            return;
        }
        self.out
            .directive(".pushsection .text.unlikely.atomseq, \"ax\", @progbits");
        for exit in 0..self.sequence.exits.len() {
            self.out.directive(format!("{}:", label::EXIT + exit));
            match self.leaving {
                Leaving::Labels => self.out.instruction(format!("jmp {{exit{exit}}}")),
                Leaving::Status => {
                    let status = exit + 1;
                    self.out
                        .instruction(format!("mov {}, {status}", self.status));
                    self.out.instruction(format!("jmp {}b", label::END));
                }
            }
        }
        self.out.directive(".popsection");
    }
}
