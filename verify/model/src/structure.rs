//! The interface of a structure for the checker.

use atomseq::sequence::model::{Memory, Program, Shape, Step, Value};

/// The abstract content: for each CPU, the values in order. It contains exactly what a caller can
/// observe.
pub type Content = Vec<Vec<usize>>;

/// One call of a sequence, ready to run on any CPU.
#[derive(Clone, Debug)]
pub struct Call {
    /// The sequence to call.
    pub program: &'static Program,
    /// Its arguments, without the slot.
    pub words: Vec<usize>,
    /// The arguments passed: the same, unless the sequence is a wrong one with other parameters.
    pub passed: Vec<usize>,
    /// The caller's words that the sequence fills, by address.
    pub fills: std::ops::Range<usize>,
}

impl Call {
    /// Returns a call that takes and returns words.
    pub fn new(program: &'static Program, words: &[usize]) -> Call {
        Call {
            program,
            words: words.to_vec(),
            passed: words.to_vec(),
            fills: 0..0,
        }
    }

    /// Returns a call that fills a buffer of the caller.
    pub fn filling(self, fills: std::ops::Range<usize>) -> Call {
        Call { fills, ..self }
    }
}

/// The result that a call must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The return value.
    pub value: Value,
    /// The words in the caller's buffer, from its start; words behind them are not compared.
    pub filled: Vec<usize>,
}

/// The mechanism's reaction to an interruption of an attempt, which determines when the
/// interference takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The attempt is abandoned, the interference runs, the attempt restarts: by the kernel, or by
    /// a signal handler.
    Restart,
    /// The attempt is run to its end, then the interference runs.
    Rollforward,
    /// No reaction: the interference runs, and the attempt continues. A broken mechanism would do
    /// this.
    Nothing,
}

impl Recovery {
    /// Returns the recovery for which a sequence was made.
    pub fn of(program: &Program) -> Recovery {
        let commits = |step: &Step| matches!(step, Step::Commit { .. });
        match program.steps.iter().any(commits) {
            true => Recovery::Restart,
            // It has visible stores, or reads several words that must be consistent.
            false => Recovery::Rollforward,
        }
    }
}

/// A structure: its memory, its calls, and their meaning.
pub trait Structure {
    /// Returns its name in reports.
    fn name(&self) -> &'static str;

    /// Returns the file in `percpu/` that holds its sequences, without the extension.
    fn file(&self) -> &'static str {
        self.name()
    }

    /// Returns the number of participating CPUs.
    fn cpus(&self) -> usize {
        crate::layout::CPUS
    }

    /// Returns the reaction to an interrupted attempt at this sequence.
    fn recovery(&self, program: &Program) -> Recovery {
        Recovery::of(program)
    }

    /// Returns the size of a CPU's bulk memory in bytes.
    fn bulk_bytes(&self) -> usize {
        0
    }

    /// Returns the callers' memory that sequences write to although they are not asked to fill it.
    fn nodes(&self) -> std::ops::Range<usize> {
        0..0
    }

    /// Returns the bound on the calls in a row. A structure with finitely many states is exhausted
    /// before.
    fn longest_history(&self) -> usize {
        usize::MAX
    }

    /// Returns the memory as the constructor leaves it.
    fn empty(&self) -> Memory;

    /// Returns every call that a caller could make in this state.
    fn calls(&self, memory: &Memory) -> Vec<Call>;

    /// Returns the abstract content of the memory, or why it is no valid state of this structure.
    fn content(&self, memory: &Memory) -> Result<Content, String>;

    /// Applies the call's effect on this CPU to the content; returns the correct answer.
    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer;
}

/// Returns the result of a sequence that returns these words.
pub fn plain(words: &[usize]) -> Value {
    value(Shape::Plain, words)
}

/// Returns `Some` of these words.
pub fn some(words: &[usize]) -> Value {
    value(Shape::Some, words)
}

/// Returns `None`.
pub fn none() -> Value {
    value(Shape::None, &[])
}

/// Returns `true` or `false`.
pub fn truth(holds: bool) -> Value {
    value(if holds { Shape::True } else { Shape::False }, &[])
}

fn value(shape: Shape, words: &[usize]) -> Value {
    Value {
        shape,
        words: words.to_vec(),
    }
}

/// Returns an answer without a filled buffer.
pub fn answer(value: Value) -> Answer {
    Answer {
        value,
        filled: Vec::new(),
    }
}
