//! What protects a sequence against this thread's signal handlers without an instruction of its
//! own: a row in the table of sequences, and for the form that is rolled forward a clone.
//!
//! # The row
//!
//! A row says where a sequence lies. A handler that is about to run looks the interrupted program
//! counter up. If it lies inside a row, the handler restarts the sequence (no clone) or runs the
//! rest of it in the clone. Rows are ELF notes, so that the dynamic linker's tables lead to them in
//! every loaded object:
//!
//! ```text
//! section .note.atomseq
//!         .long 12, 20, 2                 length of the name, of the description; type 2
//!         .asciz "atomseq"; .long 0       the name, padded to 12 bytes
//!         .long start - .                 each address as a distance from its own place,
//!         .long end   - .                 so that no relocation is needed when the object is loaded
//!         .long clone - .                 0 without a clone
//!         .long limit - .                 0 without a clone
//!         .long __ehdr_start - .          where the object's file begins
//! ```
//!
//! The last word serves readers of a finished program: tools such as `strip` may move notes while
//! they leave code in place. From this word, and from where the object begins in memory, a reader
//! computes how far the notes were moved.
//!
//! # The clone
//!
//! A clone is the sequence once more, in another section, with other ends. Each of its instructions
//! is as long as the original's, so that the place to continue at is `clone + (pc - start)`:
//!
//! ```text
//! the sequence                               the clone, in .text.atomseq_clone
//!
//! start:  mov  t0, [a0]                      clone:  mov  t0, [a0]
//!         test t0, t0                                test t0, t0
//!         je   exit0 ─────┐                          je   clone_exit0 ──┐
//!   ✗     mov  t1, [t0]   │ ── the handler ──>       mov  t1, [t0]      │
//!         mov  [a0], t1   │    jumps here            mov  [a0], t1      │
//! end:    …               │                          to the handler     │
//! exit0:  … <─────────────┘                          .long end - .      │
//!                                                 clone_exit0: <────────┘
//!                                                    to the handler
//!                                                    .long exit0 - .
//!                                            limit:
//! ```
//!
//! 1. The signal arrives at ✗. The handler loads the thread's registers, all but the stack pointer,
//!    which no sequence uses, and jumps into the clone. On top of its own stack it left the address
//!    where it continues.
//! 2. The clone runs to one of its ends. There it goes to that address, and hands over the place
//!    right behind the jump: the word there is the distance to a place in the original.
//! 3. The handler stores the registers as the interrupted thread's, with that place as the program
//!    counter. Only now it runs the user's handler, to which the sequence has ended.
//!
//! Branches are the only instructions that differ: a branch to `exit0` leads to the clone's own end
//! for that exit. Each architecture makes them as long as the original's.

use super::Line;
use super::builder::{Builder, label};
use crate::forms::Protection;

impl Builder {
    /// Adds the row, and the clone for a rollforward, after the steps and their exits. `back` are
    /// the instructions from an end of the clone to the handler. `branch` makes a branch of the
    /// clone as long as the original's.
    pub fn protect(
        &mut self,
        protection: Protection,
        back: &[&str],
        branch: impl Fn(&str) -> String,
    ) {
        // Without an instruction there is no place to be interrupted at; and a row that ends where
        // it starts could share that address with another sequence's.
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

    /// Repeats the lines between `start` and `end`, then writes an end for each way out.
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
        // Control falls through the last instruction to the first of these.
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
            // Where in the original the interrupted thread continues.
            self.directive(format!(".long {to}b - ."));
        }
        self.directive(format!("{}:", label::CLONE_LIMIT));
        self.directive(".popsection");
    }

    /// Writes the note.
    fn row(&mut self, has_clone: bool) {
        use label::{CLONE, CLONE_LIMIT, END, START};
        // "a": loaded with the program; "R": kept by the linker although nothing refers to it.
        self.directive(".pushsection .note.atomseq, \"aR\", @note");
        self.directive(".balign 4");
        // With a name of 12 bytes the description begins at 24, for readers that align to four
        // bytes and for those that align to eight.
        self.directive(".long 12, 20, 2");
        self.directive(".asciz \"atomseq\"");
        self.directive(".long 0");
        for at in [START, END, CLONE, CLONE_LIMIT] {
            match has_clone || at == START || at == END {
                true => self.directive(format!(".long {at}b - .")),
                false => self.directive(".long 0"),
            }
        }
        // The linker's own symbol. Weak, because a linker script may leave the file's header out of
        // what is loaded, and then there is none.
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

    /// Returns every protection of both architectures, and what precedes a branch of a clone.
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
            assert!(none.slot_as_status.is_none() && rollforward.slot_as_status.is_none());
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
            // An end is the way back and the place to continue at; those of exits have a label too.
            let back = if prefix.is_empty() { 4 } else { 1 };
            assert_eq!(ends.len(), back + 1 + (back + 2) * branches);
            let line =
                |line: &Line| matches!(line, Line::Text(text) if text.contains("atomseq_clone"));
            assert!(!restart.lines.iter().any(line));
        }
    }

    /// Its row would end where it starts, where another sequence may start.
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
