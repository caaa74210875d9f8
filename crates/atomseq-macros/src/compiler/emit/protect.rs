//! What protects a sequence against this thread's signal handlers without an instruction of its own:
//! a row in the table, and for the form that is rolled forward a clone.
//!
//! ```text
//! in section .text.atomseq_clone
//! clone:  … the steps again, each instruction as long as in the original …
//!         trap; .long end - .
//!         for every exit, where the clone's branch to it leads:
//!         trap; .long exit - .
//! limit:
//! in section .note.atomseq, for the dynamic linker to find
//!         .long 8, 16, 1; .asciz "atomseq"            a note of type 1
//!         .long start - ., end - ., clone - ., limit - .      or 0, 0 without a clone
//! ```
//!
//! A handler finds where it interrupted by the row, and moves the thread to the same place of the
//! clone. The trap at the clone's end says itself where in the original to go on.

use super::{Builder, Line, Protection, label};

impl Builder {
    /// What follows the steps and their exits. `trap` is an instruction that is undefined for good;
    /// `branch` makes the clone's branches as long as the original's.
    pub fn protect(&mut self, protection: Protection, trap: &str, branch: impl Fn(&str) -> String) {
        match protection {
            Protection::None => {}
            Protection::Restart => self.row(false),
            Protection::Rollforward => {
                self.clone(trap, branch);
                self.row(true);
            }
        }
    }

    fn clone(&mut self, trap: &str, branch: impl Fn(&str) -> String) {
        self.directive(".pushsection .text.atomseq_clone, \"ax\", @progbits");
        self.directive(format!("{}:", label::CLONE));
        let branches = std::mem::take(&mut self.branches);
        for index in self.body.clone() {
            let line = match branches.iter().find(|(at, ..)| *at == index) {
                None => self.lines[index].clone(),
                Some((_, instruction, exit)) => Line::Text(format!(
                    "{} {}f",
                    branch(instruction),
                    label::CLONE_EXIT + exit
                )),
            };
            self.lines.push(line);
        }
        let mut traps = vec![(None, label::END)];
        for (_, _, exit) in branches {
            traps.push((Some(label::CLONE_EXIT + exit), label::EXIT + exit));
        }
        for (at, to) in traps {
            if let Some(at) = at {
                self.directive(format!("{at}:"));
            }
            self.directive(trap);
            self.directive(format!(".long {to}b - ."));
        }
        self.directive(format!("{}:", label::CLONE_LIMIT));
        self.directive(".popsection");
    }

    fn row(&mut self, has_clone: bool) {
        use label::{CLONE, CLONE_LIMIT, END, START};
        // "R": kept by the linker whatever refers to it.
        self.directive(".pushsection .note.atomseq, \"aR\", @note");
        self.directive(".balign 4");
        self.directive(".long 8, 16, 1");
        self.directive(".asciz \"atomseq\"");
        for at in [START, END, CLONE, CLONE_LIMIT] {
            match has_clone || at == START || at == END {
                true => self.directive(format!(".long {at}b - .")),
                false => self.directive(".long 0"),
            }
        }
        self.directive(".popsection");
    }
}
