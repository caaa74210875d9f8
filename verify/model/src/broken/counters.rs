//! Wrong counters, and test-and-set that is wrong or right but unprotected.

use atomseq::percpu::Area;
use atomseq::sequence::model::{
    Address, Memory, Operand, Operator, Outcome, Parameter, Program, Shape, Step,
};

use super::Broken;
use super::local::{Recovering, torn};
use crate::execution::Fault;
use crate::layout::{slot, word};
use crate::structure::{Answer, Call, Content, Recovery, Structure, answer, plain};
use crate::structures::{Counter, Flags, Homes, Readers, program};

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
        /// Works on the slot whose address the caller has computed before.
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
        /// Adds to a word that is shared by several CPUs. Correct on any single one.
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

/// One word shared by several CPUs.
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

pub fn counters() -> Vec<Broken> {
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
            "the word belongs to no single CPU",
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

// Test-and-set sequences that are wrong, and a correct one without protection.

mod flags {
    atomseq::sequence! {
        /// Sets the flag, and reports that it was clear without having tested it.
        pub(super) unsafe fn set(flag: Word) -> bool {
            let held = load32(flag);
            if held == 2 { return false }
            commit32(flag, 1);
            true
        }
    }

    pub(super) mod wide {
        atomseq::sequence! {
            /// Sets a whole word, and so the next flag.
            pub(in super::super) unsafe fn set(flag: Word) -> bool {
                let held = load32(flag);
                if held != 0 { return false }
                commit(flag & 0xfff_fff8, 1);
                true
            }
        }
    }
}

mod homes {
    pub(super) mod unheld {
        atomseq::sequence! {
            /// Does not test whether the flag is held.
            pub(in super::super) unsafe fn take(flag: Word) -> bool {
                let here = cpu();
                let home = load_acquire(flag);
                if here != home { return false }
                commit(flag + 8, 1);
                true
            }
        }
    }

    pub(super) mod elsewhere {
        atomseq::sequence! {
            /// Takes a lower home for its own.
            pub(in super::super) unsafe fn take(flag: Word) -> bool {
                let here = cpu();
                let home = load_acquire(flag);
                if here < home { return false }
                let held = load_acquire(flag + 8);
                if held != 0 { return false }
                commit(flag + 8, 1);
                true
            }
        }
    }

    pub(super) mod moving {
        atomseq::sequence! {
            /// Sets the home instead of the flag.
            pub(in super::super) unsafe fn take(flag: Word) -> bool {
                let here = cpu();
                let home = load_acquire(flag);
                if here != home { return false }
                let held = load_acquire(flag + 8);
                if held != 0 { return false }
                commit(flag, 1);
                true
            }
        }
    }
}

mod readers {
    pub(super) mod unasked {
        atomseq::sequence! {
            /// Does not read the state.
            pub(in super::super) unsafe fn enter(slot: Slot, state: Word) -> bool {
                let count = load(slot + 8);
                commit(slot + 8, count + 1);
                true
            }
        }
    }
}

pub fn flags_and_homes() -> Vec<Broken> {
    let wrong = |fault: &Fault| {
        matches!(
            fault,
            Fault::WrongContent { .. } | Fault::WrongAnswer { .. }
        )
    };
    vec![
        Broken::new(
            "a flag that is set is set again",
            Flags,
            &flags::set::MODEL,
            wrong,
        ),
        Broken::new(
            "setting a flag changes the flag beside it",
            Flags,
            &flags::wide::set::MODEL,
            wrong,
        ),
        Broken::new(
            "nothing restarts a test-and-set",
            Recovering(Flags, |_| Recovery::Nothing),
            program("mutex/mechanism", "set"),
            torn,
        ),
        Broken::new(
            "a flag with a home is set though it is held",
            Homes,
            &homes::unheld::take::MODEL,
            wrong,
        ),
        Broken::new(
            "a flag is set on a CPU that is not its home",
            Homes,
            &homes::elsewhere::take::MODEL,
            wrong,
        ),
        Broken::new(
            "the home is changed instead of the flag",
            Homes,
            &homes::moving::take::MODEL,
            |fault| matches!(fault, Fault::Broken(_) | Fault::WrongContent { .. }),
        ),
        Broken::new(
            "nothing restarts a test-and-set on its home CPU",
            Recovering(Homes, |_| Recovery::Nothing),
            program("mutex/home", "take"),
            torn,
        ),
        Broken::new(
            "a reader enters whatever the state",
            Readers,
            &readers::unasked::enter::MODEL,
            wrong,
        ),
        Broken::new(
            "nothing restarts a reader that leaves",
            Recovering(Readers, |_| Recovery::Nothing),
            program("mutex/rwlock", "leave"),
            torn,
        ),
    ]
}
