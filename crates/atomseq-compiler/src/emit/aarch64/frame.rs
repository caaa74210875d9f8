//! Frame.

use super::Emitter;
use crate::emit::builder::label;
use crate::emit::{Leaving, aborted_status};
use crate::forms::Protection;

impl Emitter<'_> {
    pub(super) fn on_cpu(&mut self) {
        self.arm();
        self.out.start();
        self.slots();
        self.steps();
        self.out.end();
        self.out_of_line();
        self.out.descriptor();
        self.results.push(self.result(&self.sequence.end));
    }

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
                let exits = &self.sequence.exits;
                let apart = |exit: &usize| exits[*exit].commit.is_none();
                for exit in (0..exits.len()).filter(apart) {
                    arrive(Some(label::EXIT + exit), exit + 1);
                }
            }
        }
        self.out.directive(".subsection 0");
    }

    pub(super) fn signal(&mut self, protection: Protection) {
        if self.leaving == Leaving::Status {
            self.out.instruction("mov {status:w}, wzr");
        }
        self.out.start();
        self.steps();
        self.out.end();
        self.results.push(self.result(&self.sequence.end));
        self.exits();
        // A return needs no landing pad where it leads. Every branch is as long as any other.
        let back = [
            "adr x16, . + 16",
            "str x16, [sp, #8]",
            "ldr x16, [sp]",
            "ret x16",
        ];
        self.out.protect(protection, &back, str::to_string);
    }

    /// Where branches lead.
    fn exits(&mut self) {
        if self.sequence.exits.is_empty() {
            return;
        }
        self.out.directive(".subsection 1");
        for exit in 0..self.sequence.exits.len() {
            self.out.directive(format!("{}:", label::EXIT + exit));
            match self.leaving {
                Leaving::Labels => self.out.instruction(format!("b {{exit{exit}}}")),
                Leaving::Status => {
                    let status = exit + 1;
                    self.out.instruction(format!("mov {{status:w}}, #{status}"));
                    self.out.instruction(format!("b {}b", label::END));
                }
            }
        }
        self.out.directive(".subsection 0");
    }
}
