//! What the forms against this thread's signal handlers have around the steps.

use super::super::{Leaving, Protection, label};
use super::Emitter;

impl Emitter<'_> {
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
