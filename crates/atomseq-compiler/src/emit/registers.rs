//! Register allocation: which temporary holds which word, by one scan over straight-line code.
//!
//! A sequence has no loops, and paths join nowhere but at its commit. So the live range of a word
//! is an interval: from the step that defines it to the last step that reads it. The scan walks the
//! steps once. A word gets a temporary where it is defined, and gives it back after its last use;
//! the number of temporaries is the largest number of words that live at once. rustc then maps
//! temporaries to machine registers.
//!
//! # Parameters
//!
//! A parameter stays in the register that rustc gave it, and is never written: an interrupted
//! attempt restarts with the same parameters, however far it had come. Everything else may be
//! overwritten freely, because a restart computes it again.
//!
//! # Live ranges across exits
//!
//! An early return reads its words after the branch, in Rust. An ordinary exit branches away at its
//! own step, and nothing that is emitted later runs on that path. So its words live to that step
//! only:
//!
//! ```text
//! step 0   a = load …            a ───┐
//! step 1   exit if x, returns a       │      a dies at step 1
//! step 2   b = load …            b ───┼─┐    b may take the temporary of a
//! ```
//!
//! An exit through the commit of a sequence with a `cas` is different: its path runs on through the
//! commit, and with it through every instruction between the label of the commit and `end`. There a
//! constant may need a scratch register. So its words live to the end, even if another step reads
//! them for the last time in between:
//!
//! ```text
//! step 5   r = load …            r ───┐
//! step 6   exit if x, by commit, returns r
//! step 7   store b, r                 │      the last use on the straight path
//! step 8   commit l, 0x1_0000_0000 ───┤      the constant's scratch register must not be r's
//! end      Rust returns r ────────────┘
//! ```
//!
//! `usize::MAX` stands for "to the end"; results after the commit live as long. A live range is
//! only ever extended, never shortened, whatever order uses are noted in ([`Registers::use_at`]).
//!
//! # Scratch registers
//!
//! A constant that an instruction cannot hold, or a word on its way from memory to memory, takes a
//! temporary for one step, by [`Registers::scratch`] and [`Registers::release`]. A step that
//! defines a word and needs a scratch register takes both before it releases either, so they
//! differ.

use std::collections::HashMap;

use super::Place;
use crate::emit::indexing::Indexed;
use crate::forms::Form;
use crate::ir::*;

/// Where every word is, at the step that is being emitted.
pub struct Registers {
    /// Where each live word is.
    homes: HashMap<Register, Home>,
    /// The last step that reads a word; `usize::MAX` if it is read after the template.
    last_use: HashMap<Register, usize>,
    /// How often a word is read, results included.
    uses: HashMap<Register, usize>,
    /// The temporaries that hold no word, largest first: `pop` takes the smallest.
    free: Vec<usize>,
    /// How many temporaries exist.
    count: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Home {
    Temporary(usize),
    Parameter(usize),
}

impl Registers {
    /// Notes all uses of all words; parameters have their homes already.
    pub fn new(sequence: &Sequence, indexed: &Indexed, form: Form) -> Registers {
        let mut registers = Registers {
            homes: HashMap::new(),
            last_use: HashMap::new(),
            uses: HashMap::new(),
            free: Vec::new(),
            count: 0,
        };
        for (index, parameter) in sequence.parameters.iter().enumerate() {
            // In the `on_cpu` form a slot's address is computed inside the section; elsewhere it is
            // a parameter.
            if !parameter.is_slot || form != Form::OnCpu {
                registers
                    .homes
                    .insert(Register(index), Home::Parameter(index));
            }
        }
        for (index, step) in indexed.steps.iter().enumerate() {
            for register in indexed.uses(step) {
                registers.use_at(register, index);
            }
            if let StepKind::Exit { exit, .. } = step.kind {
                for register in sequence.exits[exit]
                    .result
                    .iter()
                    .filter_map(Operand::register)
                {
                    // Through the commit, the result must survive what is emitted up to `end`.
                    let by_commit = sequence.exits[exit].commit.is_some();
                    registers.use_at(register, if by_commit { usize::MAX } else { index });
                }
            }
        }
        for register in sequence.end.result.iter().filter_map(Operand::register) {
            registers.use_at(register, usize::MAX);
        }
        registers
    }

    /// Extends the live range of a word to a step. It never shortens it: a result that passes
    /// through the commit lives to the end, even if a later step of the scan reads the word earlier
    /// than that.
    fn use_at(&mut self, register: Register, step: usize) {
        let last = self.last_use.entry(register).or_insert(step);
        *last = step.max(*last);
        *self.uses.entry(register).or_default() += 1;
    }

    /// Keeps a word where it is to the end.
    pub fn keep(&mut self, register: Register) {
        self.use_at(register, usize::MAX);
    }

    /// Whether a word is read exactly once: then the step that loads it may be folded into the one
    /// that reads it.
    pub fn used_once(&self, register: Register) -> bool {
        self.uses.get(&register) == Some(&1)
    }

    /// Whether a word is in a temporary and no later step needs it. A parameter never dies.
    pub fn dies(&self, register: Register, step: usize) -> bool {
        matches!(self.homes.get(&register), Some(Home::Temporary(_)))
            && self
                .last_use
                .get(&register)
                .is_none_or(|last| *last <= step)
    }

    /// Returns the operand that names a word in the template.
    pub fn name(&self, register: Register) -> String {
        self.name_with(register, "")
    }

    /// Returns the same with a size modifier, such as `:e` for the lower half on x86-64.
    pub fn name_with(&self, register: Register, modifier: &str) -> String {
        match self.homes[&register] {
            Home::Temporary(index) => format!("{{t{index}{modifier}}}"),
            Home::Parameter(index) => format!("{{a{index}{modifier}}}"),
        }
    }

    /// Gives a new word a temporary of its own.
    pub fn define(&mut self, register: Register) -> String {
        let temporary = self.take();
        self.homes.insert(register, Home::Temporary(temporary));
        self.name(register)
    }

    /// Gives a new word the temporary of one that dies at this step: for instructions whose result
    /// replaces an operand.
    pub fn replace(&mut self, dying: Register, register: Register) -> String {
        let home = self
            .homes
            .remove(&dying)
            .expect("a word has a home before it dies");
        self.homes.insert(register, home);
        self.name(register)
    }

    /// Takes a temporary for this step only, until `release`.
    pub fn scratch(&mut self) -> usize {
        self.take()
    }

    /// Gives a scratch register back.
    pub fn release(&mut self, scratch: usize) {
        self.free.push(scratch);
    }

    /// Frees the temporaries of words that no step after this one reads.
    pub fn end_of_step(&mut self, step: usize) {
        let dead: Vec<Register> = self
            .homes
            .keys()
            .copied()
            .filter(|register| self.dies(*register, step))
            .collect();
        for register in dead {
            if let Some(Home::Temporary(index)) = self.homes.remove(&register) {
                self.free.push(index);
            }
        }
        // A hash map iterates in any order; the emitted code must not depend on it.
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Returns where a word of a result is now.
    pub fn place(&self, operand: &Operand) -> Place {
        match operand {
            Operand::Constant(constant) => Place::Constant(constant.clone()),
            Operand::Register(register) => match self.homes[register] {
                Home::Temporary(index) => Place::Temporary(index),
                Home::Parameter(index) => Place::Parameter(index),
            },
        }
    }

    /// Returns how many temporaries were ever in use at once.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes the smallest free temporary, or a new one.
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sequences;

    fn sequence(text: &str) -> Sequence {
        let tokens = text.parse().expect("tokens");
        sequences(tokens)
            .expect("functions")
            .remove(0)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn loaded(sequence: &Sequence, step: usize) -> Register {
        sequence.steps[step].kind.defines().expect("a load")
    }

    /// Its steps: load, exit, load, commit. `next` is used once, `top` to the end.
    const POP: &str = "unsafe fn pop(slot: Slot, limit: Word) -> Word {
        let top = load(slot + 8);
        if top == limit { return limit }
        let next = load(top);
        commit(slot + 8, next);
        top
    }";

    #[test]
    fn words_live_until_their_last_use() {
        let sequence = sequence(POP);
        let mut registers = Registers::new(&sequence, &Indexed::none(&sequence), Form::OnCpu);
        let (slot, top, next) = (Register(0), loaded(&sequence, 0), loaded(&sequence, 2));
        assert_eq!(registers.define(slot), "{t0}");
        assert_eq!(registers.define(top), "{t1}");
        assert!(registers.used_once(next) && !registers.used_once(top));
        assert!(!registers.dies(Register(1), 1), "a parameter never dies");
        assert!(!registers.dies(top, 3), "a result never dies");
        assert!(!registers.dies(slot, 2) && registers.dies(slot, 3));
        registers.end_of_step(2);
        assert_eq!(registers.define(next), "{t2}");
        registers.end_of_step(3);
        assert_eq!(registers.scratch(), 0, "the slot's temporary is free again");
        assert_eq!(registers.count(), 3);
    }

    /// Steps: cpu, exit, load, cas, exit, load, exit by the commit, store, load, commit.
    #[test]
    fn a_use_after_an_exit_through_the_commit_ends_no_live_range() {
        let sequence = sequence(
            "unsafe fn f(lock: Word, a: Word, b: Word) -> Word {
                'abort: { return 7 }
                if cpu() > 65535 { return 9 }
                let expected = load(lock);
                if cas(lock, expected, 1) != expected { return 8 }
                let result = load(a);
                if result < 10 { commit(lock, expected); return result }
                store(b, result);
                store(a, load(b));
                commit(lock, expected);
                3
            }",
        );
        let mut registers = Registers::new(&sequence, &Indexed::none(&sequence), Form::OnCpu);
        let result = loaded(&sequence, 5);
        registers.define(result);
        for step in 5..sequence.steps.len() {
            assert!(!registers.dies(result, step), "it is returned at the end");
        }
    }

    #[test]
    fn a_word_that_takes_over_a_temporary_keeps_it() {
        let sequence = sequence(POP);
        let mut registers = Registers::new(&sequence, &Indexed::none(&sequence), Form::OnCpu);
        registers.define(Register(0));
        let (top, next) = (loaded(&sequence, 0), loaded(&sequence, 2));
        registers.define(top);
        assert_eq!(registers.replace(top, next), "{t1}");
        let scratch = registers.scratch();
        assert_eq!(scratch, 2, "both are taken");
        registers.release(scratch);
        assert_eq!(registers.scratch(), 2);
    }
}
