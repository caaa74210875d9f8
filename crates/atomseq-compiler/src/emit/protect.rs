//! What protects a sequence against this thread's signal handlers without an instruction of its
//! own: a row in the table, and for the form that is rolled forward a clone.
//!
//! ```text
//! in section .text.atomseq_clone
//! clone:  … the steps again, each instruction as long as in the original …
//!         back to the handler; .long end - .
//!         for every exit, where the clone's branch to it leads:
//!         back to the handler; .long exit - .
//! limit:
//! in section .note.atomseq, for the dynamic linker to find
//!         .long 12, 20, 2; .asciz "atomseq"; .long 0   a note of type 2
//!         .long start - ., end - ., clone - ., limit - .      or 0, 0 without a clone
//!         .long __ehdr_start - .                              where the object's file begins
//! ```
//!
//! The last word is for what moves notes in a finished program and leaves code where it is: from it
//! and from where the object begins in memory, a reader knows how far they were moved.
//!
//! A handler finds where it interrupted by the row, and runs the clone from the same place on, with
//! the registers that the sequence had but for the stack pointer, which no sequence uses. There the
//! handler has left where it goes on; the clone's end leads there, and hands over a place that says
//! where in the original the interrupted code is to go on.

use super::Line;
use super::builder::{Builder, label};
use crate::forms::Protection;

impl Builder {
    /// What follows the steps and their exits. `back` leads to the handler that runs the clone,
    /// with the place right behind it; `branch` makes the clone's branches as long as the
    /// original's.
    pub fn protect(
        &mut self,
        protection: Protection,
        back: &[&str],
        branch: impl Fn(&str) -> String,
    ) {
        // Without an instruction there is no place inside to be interrupted at.
        if self.body.is_empty() {
            return;
        }
        match protection {
            Protection::None => {}
            Protection::Restart => self.row(false),
            Protection::Rollforward => {
                self.clone(back, branch);
                self.row(true);
            }
        }
    }

    fn clone(&mut self, back: &[&str], branch: impl Fn(&str) -> String) {
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
        let mut ends = vec![(None, label::END)];
        for (_, _, exit) in branches {
            ends.push((Some(label::CLONE_EXIT + exit), label::EXIT + exit));
        }
        for (at, to) in ends {
            if let Some(at) = at {
                self.directive(format!("{at}:"));
            }
            for line in back {
                self.directive(*line);
            }
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
        // A name of 12 bytes: the description begins where it does for readers that align it to
        // eight.
        self.directive(".long 12, 20, 2");
        self.directive(".asciz \"atomseq\"");
        self.directive(".long 0");
        for at in [START, END, CLONE, CLONE_LIMIT] {
            match has_clone || at == START || at == END {
                true => self.directive(format!(".long {at}b - .")),
                false => self.directive(".long 0"),
            }
        }
        // The linker's own symbol. A linker script may leave the file's header out of what is
        // loaded: then there is none.
        self.directive(".weak __ehdr_start");
        self.directive(".hidden __ehdr_start");
        self.directive(".long __ehdr_start - .");
        self.directive(".popsection");
    }
}

#[cfg(test)]
mod tests {
    use crate::emit::{Assembly, Line, aarch64, x86_64};
    use crate::forms::{Form, Protection};
    use crate::sequences;

    /// Every protection of both architectures, and what precedes a branch in an x86-64 clone.
    fn emitted(text: &str) -> [([Assembly; 3], &'static str); 2] {
        let tokens = text.parse().expect("tokens");
        let sequence = sequences(tokens).expect("functions").remove(0);
        let sequence = sequence.unwrap_or_else(|error| panic!("{error}"));
        let all = [
            Protection::None,
            Protection::Restart,
            Protection::Rollforward,
        ];
        [
            (
                all.map(|protection| x86_64::emit(&sequence, Form::Signal(protection))),
                "{{disp32}} ",
            ),
            (
                all.map(|protection| aarch64::emit(&sequence, Form::Signal(protection))),
                "",
            ),
        ]
    }

    const POP: &str = "unsafe fn pop(list: Word, limit: Word) -> Word {
        let first = load(list);
        if first == 0 { return 0 }
        if limit < first { return limit }
        let next = load_acquire(first);
        commit(list, next);
        first
    }";

    fn between<'a>(lines: &'a [Line], from: &str, to: &str) -> &'a [Line] {
        let at = |text: &str| {
            let label = Line::Text(text.to_string());
            lines.iter().position(|line| *line == label)
        };
        let (from, to) = (at(from).expect("a label"), at(to).expect("a label"));
        &lines[from + 1..to]
    }

    #[test]
    fn protection_adds_nothing_to_the_sequence() {
        for ([none, restart, rollforward], _) in emitted(POP) {
            let length = none.lines.len();
            assert_eq!(none.lines, restart.lines[..length]);
            assert_eq!(none.lines, rollforward.lines[..length]);
            assert!(restart.lines.len() < rollforward.lines.len());
            assert_eq!(none.instructions, rollforward.instructions);
            assert!(none.telling.is_none() && rollforward.telling.is_none());
        }
    }

    #[test]
    fn a_clone_is_its_sequence_but_for_where_branches_lead() {
        for ([_, restart, rollforward], prefix) in emitted(POP) {
            let body = between(&rollforward.lines, "51:", "52:");
            let clone = between(&rollforward.lines, "57:", "58:");
            let (clone, ends) = clone.split_at(body.len());
            let mut branches = 0;
            for (own, its) in body.iter().zip(clone) {
                if own == its {
                    continue;
                }
                let (Line::Text(own), Line::Text(its)) = (own, its) else {
                    panic!("a load-acquire differs");
                };
                let exit = 60 + branches;
                let own = own.strip_suffix(&format!("{exit}f")).expect("a branch");
                assert_eq!(*its, format!("{prefix}{own}{}f", 100 + exit));
                branches += 1;
            }
            assert_eq!(branches, 2);
            // The way back and where to go on; the same with a label for each exit.
            let back = if prefix.is_empty() { 4 } else { 1 };
            assert_eq!(ends.len(), back + 1 + (back + 2) * branches);
            let line =
                |line: &Line| matches!(line, Line::Text(text) if text.contains("atomseq_clone"));
            assert!(!restart.lines.iter().any(line));
        }
    }

    /// Its row would end where it starts, and where another sequence may start.
    #[test]
    fn a_sequence_of_no_instruction_has_no_row() {
        for ([none, restart, rollforward], _) in emitted("unsafe fn same(a: Word) -> Word { a }") {
            assert_eq!(none.instructions, 0);
            assert_eq!(none.lines, restart.lines);
            assert_eq!(none.lines, rollforward.lines);
        }
        for ([none, restart, rollforward], _) in
            emitted("unsafe fn read(a: Word) -> Word { load(a) }")
        {
            assert_eq!(none.instructions, 1);
            assert!(none.lines.len() < restart.lines.len());
            assert!(restart.lines.len() < rollforward.lines.len());
        }
    }

    #[test]
    fn a_slot_is_a_parameter() {
        let text = "unsafe fn add(slot: Slot, amount: Word) {
            commit(slot + 8, load(slot + 8) + amount);
        }";
        for ([assembly, ..], _) in emitted(text) {
            assert!(assembly.reads_parameter(0) && assembly.reads_parameter(1));
            assert!(!assembly.names("rseq") && !assembly.names("status"));
        }
    }
}
