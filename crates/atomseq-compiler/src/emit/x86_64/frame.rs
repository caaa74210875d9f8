//! What each form puts around the steps on x86-64. The front page of this directory shows the
//! result.

use super::Emitter;
use crate::emit::builder::label;
use crate::emit::{Leaving, Place, aborted_status};
use crate::forms::Protection;
use crate::ir::*;

impl Emitter<'_> {
    /// Emits the form for this CPU. Returns where the slot's address is, if its register serves as
    /// `status`.
    pub(super) fn on_cpu(&mut self) -> Option<Place> {
        let slot = self.sequence.slots().next().map(|(register, _)| register);
        // A way out through the commit sets the status before the commit, which may still need the
        // slot's address: then the two are different registers.
        let as_status =
            slot.filter(|_| self.leaving == Leaving::Status && !self.sequence.leaves_by_commit());
        if let Some(slot) = as_status {
            self.registers.keep(slot);
        }
        self.arm(as_status.is_none());
        self.out.start();
        self.slots();
        self.steps();
        self.out.end();
        self.out_of_line();
        self.out.descriptor();
        self.results.push(self.result(&self.sequence.end));
        as_status.map(|slot| self.registers.place(&Operand::Register(slot)))
    }

    /// Stores the descriptor's address to `rseq_cs`. From here on the kernel checks at each
    /// interruption whether the program counter lies between `start` and `end`.
    fn arm(&mut self, needs_status: bool) {
        if self.leaving == Leaving::Status && needs_status {
            // status = 0: committed. It is outside the section, so a restart does not repeat it:
            // the section leaves status alone until a way out sets it.
            self.out.instruction("xor {status:e}, {status:e}");
        }
        let scratch = self.registers.scratch();
        // scratch = &descriptor, which follows in the template, in a section of its own.
        self.out.instruction(format!(
            "lea {{t{scratch}}}, [rip + {}f]",
            label::DESCRIPTOR
        ));
        // rseq->rseq_cs = scratch
        self.out
            .instruction(format!("mov qword ptr fs:[{{rseq}} + 8], {{t{scratch}}}"));
        self.registers.release(scratch);
    }

    /// Computes the slot's address from the CPU's number and tests its gate.
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
            // slot = rseq->cpu_id, sign-extended: an unregistered thread reads -1 or -2, whose
            // slots lie before the first and are always closed.
            self.out
                .instruction(format!("movsxd {slot}, dword ptr fs:[{{rseq}} + 4]"));
            // slot *= area->stride; slot += area->base. As memory operands these take two
            // instructions and a register less than words that are loaded before.
            self.out
                .instruction(format!("imul {slot}, qword ptr [{{area}} + {{stride}}]"));
            self.out
                .instruction(format!("add {slot}, qword ptr [{{area}} + {{base}}]"));
            // if slot->gate != 0 goto closed
            self.out.instruction(format!("cmp dword ptr [{slot}], 0"));
            self.out.instruction(format!("jne {closed}"));
        }
    }

    /// Emits what is reached only after an interruption, at a closed gate or by an early return,
    /// away from the fast path.
    fn out_of_line(&mut self) {
        self.out
            .directive(".pushsection .text.unlikely.atomseq, \"ax\", @progbits");
        // ud1 edi, [rip + signature]. The kernel continues a thread only at an address that the
        // signature precedes; inside an undefined instruction it can never run.
        self.out.directive(".byte 0x0f, 0xb9, 0x3d");
        self.out.directive(".long 0x53053053");
        self.out.directive(format!("{}:", label::ABORT));
        match self.leaving {
            // To the Rust block that retries.
            Leaving::Labels => self.out.instruction("jmp {aborted}"),
            Leaving::Status => {
                let aborted = aborted_status(self.sequence);
                let register = self.status.clone();
                // [at:] status = number; goto end
                let mut arrive = |at: Option<usize>, status: usize| {
                    if let Some(at) = at {
                        self.out.directive(format!("{at}:"));
                    }
                    self.out.instruction(format!("mov {register}, {status}"));
                    self.out.instruction(format!("jmp {}b", label::END));
                };
                arrive(None, aborted);
                arrive(Some(label::CLOSED), aborted + 1);
                // Ways out through the commit have no code here: they pass it and arrive at `end`.
                let exits = &self.sequence.exits;
                let apart = |exit: &usize| exits[*exit].commit.is_none();
                for exit in (0..exits.len()).filter(apart) {
                    arrive(Some(label::EXIT + exit), exit + 1);
                }
            }
        }
        self.out.directive(".popsection");
    }

    /// Emits a form against this thread's signal handlers.
    pub(super) fn signal(&mut self, protection: Protection) {
        if self.leaving == Leaving::Status {
            // status = 0, before `start`: a restart finds it still 0, because only exits set it,
            // and they lie behind the sequence.
            self.out.instruction("xor {status:e}, {status:e}");
        }
        self.out.start();
        self.steps();
        self.out.end();
        self.results.push(self.result(&self.sequence.end));
        self.exits();
        // The original's branch leads to another section, so the assembler gives it a 32-bit
        // distance. The clone's leads to a label nearby: only this prefix makes it as long.
        let branch = |instruction: &str| format!("{{{{disp32}}}} {instruction}");
        // To the handler, whose address is on top of the stack; the call pushes the place behind
        // it, where the distance to the original stands.
        self.out
            .protect(protection, &["call qword ptr [rsp]"], branch);
    }

    /// Emits where branches lead. In another section, so that every branch has its long form.
    fn exits(&mut self) {
        if self.sequence.exits.is_empty() {
            return;
        }
        self.out
            .directive(".pushsection .text.unlikely.atomseq, \"ax\", @progbits");
        for exit in 0..self.sequence.exits.len() {
            self.out.directive(format!("{}:", label::EXIT + exit));
            match self.leaving {
                // To the Rust block of this exit.
                Leaving::Labels => self.out.instruction(format!("jmp {{exit{exit}}}")),
                Leaving::Status => {
                    // status = number; goto end
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
