//! Wrong counters.

use atomseq::percpu::Area;
use atomseq::sequence::model::{Address, Memory, Operand, Operator, Outcome, Parameter};
use atomseq::sequence::model::{Program, Shape, Step};

use super::Broken;
use crate::layout::{slot, word};
use crate::report::Fault;
use crate::structure::{Answer, Call, Content, Structure, answer, plain};
use crate::structures::Counter;

const VALUE: usize = Area::FIRST_WORD;

mod half {
    use super::VALUE;

    atomseq::sequence! {
        /// Commits half of a word.
        pub(super) unsafe fn add(slot: Slot, amount: Word) {
            let value = load(slot + VALUE);
            commit32(slot + VALUE, value + amount);
        }
    }
}

mod kept_slot {
    use super::VALUE;

    atomseq::sequence! {
        /// Works on the slot whose address the caller found out before.
        pub(super) unsafe fn add(slot: Slot, home: Word, amount: Word) {
            let value = load(home + VALUE);
            commit(home + VALUE, value + amount);
        }
    }
}

mod kept_cpu {
    use super::VALUE;

    atomseq::sequence! {
        /// Works on the slot of the CPU that the caller was on before, and does not compare.
        pub(super) unsafe fn add(slot: Slot, slots: Word, before: Word, amount: Word) {
            let there = slots + (before << 7);
            let value = load(there + VALUE);
            commit(there + VALUE, value + amount);
        }
    }
}

mod shared {
    atomseq::sequence! {
        /// Adds to a word that all CPUs share. Right on any one of them.
        pub(super) unsafe fn add(slot: Slot, total: Word, amount: Word) {
            let value = load(total);
            commit(total, value + amount);
        }
    }
}

/// `value + amount`, committed to this word and then to the next. `sequence!` refuses it.
static TWO_COMMITS: Program = Program {
    name: "add",
    parameters: &[Parameter::Slot("slot"), Parameter::Word("amount")],
    steps: &[
        Step::Load {
            to: 2,
            from: FIRST,
            bytes: 8,
        },
        Step::Binary {
            to: 3,
            operator: Operator::Add,
            a: Operand::Register(2),
            b: Operand::Register(1),
        },
        Step::Commit {
            to: SECOND,
            value: Operand::Register(3),
            bytes: 8,
        },
        Step::Commit {
            to: FIRST,
            value: Operand::Register(3),
            bytes: 8,
        },
    ],
    exits: &[],
    by_commit: &[],
    abort: None,
    result: Outcome {
        shape: Shape::Plain,
        words: &[],
    },
    registers: 4,
};

const FIRST: Address = Address {
    base: 0,
    offset: VALUE,
};

const SECOND: Address = Address {
    base: 0,
    offset: VALUE + 8,
};

/// One word for all CPUs.
struct Total;

const TOTAL: usize = word(0, 0);

impl Structure for Total {
    fn name(&self) -> &'static str {
        "total"
    }

    fn longest_history(&self) -> usize {
        3
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        memory.store(TOTAL, 0);
        memory
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        vec![Call::new(&shared::add::MODEL, &[TOTAL, 1])]
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        Ok(vec![vec![memory.load(TOTAL)]])
    }

    fn meaning(&self, content: &mut Content, _call: &Call, _cpu: usize) -> Answer {
        content[0][0] += 1;
        answer(plain(&[]))
    }
}

pub fn all() -> Vec<Broken> {
    let wrong_content: fn(&Fault) -> bool = |fault| matches!(fault, Fault::WrongContent { .. });
    vec![
        Broken::new(
            "half of the word is committed",
            Counter,
            &half::add::MODEL,
            wrong_content,
        ),
        Broken::new(
            "the slot's address is kept while the thread moves",
            Counter,
            &kept_slot::add::MODEL,
            wrong_content,
        )
        .with_words(|words| (0..3).map(|cpu| vec![slot(cpu), words[0]]).collect()),
        Broken::new(
            "the CPU's number is kept while the thread moves",
            Counter,
            &kept_cpu::add::MODEL,
            wrong_content,
        )
        .with_words(|words| (0..3).map(|cpu| vec![slot(0), cpu, words[0]]).collect()),
        Broken::new(
            "the word belongs to no one CPU",
            Total,
            &shared::add::MODEL,
            wrong_content,
        ),
        Broken::new(
            "there are two visible stores",
            Counter,
            &TWO_COMMITS,
            |fault| *fault == Fault::Shape,
        ),
    ]
}
