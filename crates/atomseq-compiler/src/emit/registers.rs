//! Which temporary holds which word: a linear scan over straight-line code.
//!
//! Parameters keep the registers rustc gave them, for a restart needs them again. Everything else
//! lives in temporaries, which rustc maps to machine registers; a temporary is free again after
//! the last use of its word.

use std::collections::HashMap;

use super::Place;
use crate::emit::indexing::Indexed;
use crate::forms::Form;
use crate::ir::*;

pub struct Registers {
    homes: HashMap<Register, Home>,
    last_use: HashMap<Register, usize>,
    uses: HashMap<Register, usize>,
    free: Vec<usize>,
    count: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Home {
    Temporary(usize),
    Parameter(usize),
}

impl Registers {
    pub fn new(sequence: &Sequence, indexed: &Indexed, form: Form) -> Registers {
        let mut registers = Registers {
            homes: HashMap::new(),
            last_use: HashMap::new(),
            uses: HashMap::new(),
            free: Vec::new(),
            count: 0,
        };
        for (index, parameter) in sequence.parameters.iter().enumerate() {
            // A slot is found inside the section, except where it is a plain address.
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
                    // A way out through the commit passes it with its result.
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

    /// Extends the word's live range to a step, and never shortens it: a result that passes through
    /// the commit lives to the end, wherever else the word is read.
    fn use_at(&mut self, register: Register, step: usize) {
        let last = self.last_use.entry(register).or_insert(step);
        *last = step.max(*last);
        *self.uses.entry(register).or_default() += 1;
    }

    /// The word stays where it is to the end.
    pub fn keep(&mut self, register: Register) {
        self.use_at(register, usize::MAX);
    }

    /// Is the word used exactly once?
    pub fn used_once(&self, register: Register) -> bool {
        self.uses.get(&register) == Some(&1)
    }

    /// Is the word in a temporary, and not needed after this step?
    pub fn dies(&self, register: Register, step: usize) -> bool {
        matches!(self.homes.get(&register), Some(Home::Temporary(_)))
            && self
                .last_use
                .get(&register)
                .is_none_or(|last| *last <= step)
    }

    /// The operand that names the word in a template.
    pub fn name(&self, register: Register) -> String {
        self.name_with(register, "")
    }

    /// The same, with a size modifier.
    pub fn name_with(&self, register: Register, modifier: &str) -> String {
        match self.homes[&register] {
            Home::Temporary(index) => format!("{{t{index}{modifier}}}"),
            Home::Parameter(index) => format!("{{a{index}{modifier}}}"),
        }
    }

    /// Gives the word a temporary of its own.
    pub fn define(&mut self, register: Register) -> String {
        let temporary = self.take();
        self.homes.insert(register, Home::Temporary(temporary));
        self.name(register)
    }

    /// Lets the word take over the temporary of one that dies.
    pub fn replace(&mut self, dying: Register, register: Register) -> String {
        let home = self
            .homes
            .remove(&dying)
            .expect("a word has a home before it dies");
        self.homes.insert(register, home);
        self.name(register)
    }

    /// A temporary for this step only; give it back with `release`.
    pub fn scratch(&mut self) -> usize {
        self.take()
    }

    pub fn release(&mut self, scratch: usize) {
        self.free.push(scratch);
    }

    /// Frees the temporaries of words last used at or before this step.
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
        // The scan must not depend on a hash map's order.
        self.free.sort_unstable_by(|a, b| b.cmp(a));
    }

    pub fn place(&self, operand: &Operand) -> Place {
        match operand {
            Operand::Constant(constant) => Place::Constant(constant.clone()),
            Operand::Register(register) => match self.homes[register] {
                Home::Temporary(index) => Place::Temporary(index),
                Home::Parameter(index) => Place::Parameter(index),
            },
        }
    }

    /// How many temporaries were ever in use at once.
    pub fn count(&self) -> usize {
        self.count
    }

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
