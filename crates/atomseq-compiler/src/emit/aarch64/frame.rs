//! What each form puts around the steps on AArch64. The front page of this directory shows the
//! result.

use super::Emitter;
use crate::emit::builder::label;
use crate::emit::{Leaving, aborted_status};
use crate::forms::Protection;

impl Emitter<'_> {
    /// Emits the form for this CPU.
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

    /// Stores the descriptor's address to `rseq_cs`. From here on the kernel checks at each
    /// interruption whether the program counter lies between `start` and `end`.
    fn arm(&mut self) {
        if self.leaving == Leaving::Status {
            // status = 0: committed. A write of 32 bits clears the rest.
            self.out.instruction("mov {status:w}, wzr");
        }
        let rseq = self.registers.scratch();
        self.rseq = format!("{{t{rseq}}}");
        let rseq = &self.rseq;
        let scratch = self.registers.scratch();
        // t0 = the thread pointer; t0 += the offset of struct rseq
        self.out.instruction(format!("mrs {rseq}, tpidr_el0"));
        self.out
            .instruction(format!("add {rseq}, {rseq}, {{rseq}}"));
        // scratch = &descriptor, which follows in the template, in a section of its own: its page,
        // then the offset within it.
        self.out
            .instruction(format!("adrp {{t{scratch}}}, {}f", label::DESCRIPTOR));
        self.out.instruction(format!(
            "add {{t{scratch}}}, {{t{scratch}}}, :lo12:{}f",
            label::DESCRIPTOR
        ));
        // rseq->rseq_cs = scratch
        self.out
            .instruction(format!("str {{t{scratch}}}, [{rseq}, #8]"));
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
            let gate = self.registers.scratch();
            // slot = rseq->cpu_id, sign-extended: an unregistered thread reads -1 or -2, whose
            // slots lie before the first and are always closed.
            self.out
                .instruction(format!("ldrsw {slot}, [{}, #4]", self.rseq));
            // slot = slot * stride + base
            self.out.instruction(format!(
                "madd {slot}, {slot}, {{stride}}, {{a{}}}",
                register.0
            ));
            // gate = slot->gate. Acquire: pairs with the release that opened the gate.
            self.out.load_acquire(format!("{{t{gate}:w}}, [{slot}]"));
            // if gate != 0 goto closed
            self.out
                .instruction(format!("cbnz {{t{gate}:w}}, {closed}"));
            self.registers.release(gate);
        }
    }

    /// Emits what is reached only after an interruption, at a closed gate or by an early return,
    /// away from the fast path.
    fn out_of_line(&mut self) {
        self.out.directive(".subsection 1");
        // brk #0x45e0. The kernel continues a thread only at an address that the signature
        // precedes.
        self.out.directive(".inst 0xd428bc00");
        self.out.directive(format!("{}:", label::ABORT));
        match self.leaving {
            // To the Rust block that retries.
            Leaving::Labels => self.out.instruction("b {aborted}"),
            Leaving::Status => {
                let aborted = aborted_status(self.sequence);
                // [at:] status = number; goto end
                let mut arrive = |at: Option<usize>, status: usize| {
                    if let Some(at) = at {
                        self.out.directive(format!("{at}:"));
                    }
                    self.out.instruction(format!("mov {{status:w}}, #{status}"));
                    self.out.instruction(format!("b {}b", label::END));
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
        self.out.directive(".subsection 0");
    }

    /// Emits a form against this thread's signal handlers.
    pub(super) fn signal(&mut self, protection: Protection) {
        if self.leaving == Leaving::Status {
            // status = 0, before `start`: a restart finds it still 0, because only exits set it,
            // and they lie behind the sequence.
            self.out.instruction("mov {status:w}, wzr");
        }
        self.out.start();
        self.steps();
        self.out.end();
        self.results.push(self.result(&self.sequence.end));
        self.exits();
        // From an end of the clone to the handler. The stack holds the handler's address, and room
        // for the place behind these instructions, where the distance to the original stands.
        // `ret`, not `br`: a return needs no landing pad where it leads, under branch target
        // identification. Every AArch64 branch is as long as any other.
        let back = [
            // x16 = the place behind; sp[1] = x16; x16 = the handler; goto x16
            "adr x16, . + 16",
            "str x16, [sp, #8]",
            "ldr x16, [sp]",
            "ret x16",
        ];
        self.out.protect(protection, &back, str::to_string);
    }

    /// Emits where branches lead, out of line.
    fn exits(&mut self) {
        if self.sequence.exits.is_empty() {
            return;
        }
        self.out.directive(".subsection 1");
        for exit in 0..self.sequence.exits.len() {
            self.out.directive(format!("{}:", label::EXIT + exit));
            match self.leaving {
                // To the Rust block of this exit.
                Leaving::Labels => self.out.instruction(format!("b {{exit{exit}}}")),
                Leaving::Status => {
                    // status = number; goto end
                    let status = exit + 1;
                    self.out.instruction(format!("mov {{status:w}}, #{status}"));
                    self.out.instruction(format!("b {}b", label::END));
                }
            }
        }
        self.out.directive(".subsection 0");
    }
}
