//! What the checker must know of a structure.

use atomseq::sequence::model::{Memory, Program, Shape, Step, Value};

/// The abstract content: for each CPU, the values in order. What a user could find out, and no
/// more.
pub type Content = Vec<Vec<usize>>;

/// One call of a sequence, ready to be run on any CPU.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub program: &'static Program,
    /// Its words, without the slot.
    pub words: Vec<usize>,
    /// The words that are passed: the same, unless the sequence is a wrong one that takes others.
    pub passed: Vec<usize>,
    /// Words of the caller that the sequence fills, by address.
    pub fills: std::ops::Range<usize>,
}

impl Call {
    /// A call that takes and returns words.
    pub fn new(program: &'static Program, words: &[usize]) -> Call {
        Call {
            program,
            words: words.to_vec(),
            passed: words.to_vec(),
            fills: 0..0,
        }
    }

    /// A call that fills a buffer of the caller.
    pub fn filling(self, fills: std::ops::Range<usize>) -> Call {
        Call { fills, ..self }
    }
}

/// What a call must return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The result.
    pub value: Value,
    /// The words in the caller's buffer, from its start; what lies behind them does not matter.
    pub filled: Vec<usize>,
}

/// What happens to an attempt that is interrupted, and so when the interference comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It is given up, the interference comes, it starts again: by the kernel, or by a signal
    /// handler.
    Restart,
    /// It is run to its end, then the interference comes.
    Rollforward,
    /// Nothing: the interference comes, and it goes on. What a broken mechanism would do.
    Nothing,
}

impl Recovery {
    /// What a sequence was made for.
    pub fn of(program: &Program) -> Recovery {
        let commits = |step: &Step| matches!(step, Step::Commit { .. });
        match program.steps.iter().any(commits) {
            true => Recovery::Restart,
            // It has visible stores, or reads several words that are to be of one time.
            false => Recovery::Rollforward,
        }
    }
}

/// A structure: its memory, its calls, and what they mean.
pub trait Structure {
    /// What it is called in reports.
    fn name(&self) -> &'static str;

    /// The file in `percpu/` that holds its sequences, without the ending.
    fn file(&self) -> &'static str {
        self.name()
    }

    /// How many CPUs take part.
    fn cpus(&self) -> usize {
        crate::layout::CPUS
    }

    /// What happens to an interrupted attempt at this sequence.
    fn recovery(&self, program: &Program) -> Recovery {
        Recovery::of(program)
    }

    /// How many bytes of bulk memory a CPU has.
    fn bulk_bytes(&self) -> usize {
        0
    }

    /// Callers' memory that sequences write to without being asked to fill it.
    fn nodes(&self) -> std::ops::Range<usize> {
        0..0
    }

    /// How many calls in a row are enough. A structure with finitely many states is exhausted
    /// before.
    fn longest_history(&self) -> usize {
        usize::MAX
    }

    /// The memory as the constructor leaves it.
    fn empty(&self) -> Memory;

    /// Every call that somebody could make now.
    fn calls(&self, memory: &Memory) -> Vec<Call>;

    /// The abstract content of the memory, or why it is no state of this structure.
    fn content(&self, memory: &Memory) -> Result<Content, String>;

    /// What the call must do to the content and answer, when it takes effect on this CPU.
    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer;
}

/// The result of a sequence that returns these words.
pub fn plain(words: &[usize]) -> Value {
    value(Shape::Plain, words)
}

/// `Some` of these words.
pub fn some(words: &[usize]) -> Value {
    value(Shape::Some, words)
}

/// `None`.
pub fn none() -> Value {
    value(Shape::None, &[])
}

/// `true` or `false`.
pub fn truth(holds: bool) -> Value {
    value(if holds { Shape::True } else { Shape::False }, &[])
}

fn value(shape: Shape, words: &[usize]) -> Value {
    Value {
        shape,
        words: words.to_vec(),
    }
}

/// An answer in words only.
pub fn answer(value: Value) -> Answer {
    Answer {
        value,
        filled: Vec::new(),
    }
}
