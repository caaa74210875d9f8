//! What the forms against this thread's signal handlers have around the steps.

use super::super::{Leaving, Protection, label};
use super::Emitter;

impl Emitter<'_> {
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
