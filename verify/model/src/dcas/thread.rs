//! One thread: an exchange or a reader, following the library's `RevocableLock`, one memory access
//! a step.

use atomseq::sequence::model::{Attempt, Memory, Program, Step};

use super::{BELOW_VERSION, CLAIM, FIRST, HELD, LINE, Rules, SECOND, VERSION, state};

/// The results of the sequences; must agree with `dcas/assisted.rs`.
const DONE: usize = 0;
const CHANGED: usize = 1;
const BUSY: usize = 2;
const UNREGISTERED: usize = 3;
const ABORTED: usize = 4;
const LOST: usize = 5;
const ELSEWHERE: usize = 6;
const UNLOGGED: usize = 7;

/// A thread's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Exchanges both words, from these old values to these new ones.
    Exchange([usize; 2], [usize; 2]),
    /// Stores both words if the version is still this one.
    Since(usize, [usize; 2]),
    /// Reads both words.
    Read,
}

/// A thread's position in its task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// About to begin a section; the thread may be unregistered once, in the next attempt.
    Begin {
        unregistered: bool,
    },
    /// In the section of its exchange; the exit through which it leaves by the commit, if it does.
    Exchanging(Attempt, Option<usize>),
    /// The section was aborted, and the thread has not noticed yet.
    Aborted,
    /// Loads the lock, to revoke a stopped holder.
    Look,
    /// Rolls back by a section if the holder's CPU is its own: about to begin that section, and in
    /// it.
    BeginRollBackHere(usize),
    RollingBackHere(usize, Attempt),
    /// Releases the lock by such a section, because there is nothing to roll back.
    BeginFreeHere(usize),
    FreeingHere(usize, Attempt),
    Claim(usize),
    Fence {
        seen: usize,
        claim: usize,
    },
    LookAgain(usize),
    ReadLog {
        claim: usize,
        log: Vec<usize>,
    },
    /// Releases the lock: there is nothing to roll back.
    GiveBack(usize),
    BeginRollBack {
        claim: usize,
        log: Vec<usize>,
    },
    RollingBack {
        claim: usize,
        log: Vec<usize>,
        attempt: Attempt,
    },
    /// A reader that has found the lock free, and the words that it has loaded.
    Reading(usize, Vec<usize>),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) number: usize,
    pub(super) cpu: usize,
    pub(super) at: At,
}

/// The effect of a step on the rest of the model.
pub(super) enum Effect {
    Nothing,
    /// Ends the sections on this CPU, or on all.
    Fence(Option<usize>),
    /// A sequence has ended through this exit.
    Left(&'static str, Option<usize>, Ending),
    Read([usize; 2]),
}

/// The meaning of a sequence's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exchanged,
    FoundChange,
    RolledBack,
    Other,
}

impl Thread {
    /// Returns whether the thread is inside a section.
    pub(super) fn in_section(&self) -> bool {
        matches!(
            self.at,
            At::Exchanging(..)
                | At::RollingBack { .. }
                | At::RollingBackHere(..)
                | At::FreeingHere(..)
        )
    }

    /// Ends the thread's section: sets the position at which it will resume.
    pub(super) fn abort(&mut self) {
        self.at = match std::mem::replace(&mut self.at, At::Over) {
            At::Exchanging(..) => At::Aborted,
            // Retries, perhaps on another CPU.
            At::RollingBack { claim, log, .. } => At::BeginRollBack { claim, log },
            At::RollingBackHere(seen, _) => At::BeginRollBackHere(seen),
            At::FreeingHere(seen, _) => At::BeginFreeHere(seen),
            other => other,
        };
    }

    /// Returns whether the next step begins a section, on a CPU that the search chooses.
    pub(super) fn begins(&self, task: &Task) -> bool {
        match self.at {
            At::Begin { .. } => *task != Task::Read,
            At::BeginRollBack { .. } | At::BeginRollBackHere(_) | At::BeginFreeHere(_) => true,
            _ => false,
        }
    }

    pub(super) fn step(&mut self, task: &Task, rules: &Rules, memory: &mut Memory) -> Effect {
        let at = std::mem::replace(&mut self.at, At::Over);
        match at {
            At::Over => Effect::Nothing,
            At::Begin { unregistered } => self.begin(task, rules, memory, unregistered),
            At::Exchanging(attempt, leaving) => {
                self.exchange(task, rules, memory, attempt, leaving)
            }
            // Reports the abort, and then continues as if the lock had been taken.
            At::Aborted => {
                let attempt = self.attempt(task, rules);
                let result = attempt
                    .aborted(sequence(task, rules))
                    .map(|result| result.words);
                assert_eq!(result, Some(vec![ABORTED]), "the abort block says so");
                self.look(task, memory)
            }
            At::Look => self.look(task, memory),
            At::BeginRollBackHere(seen) => {
                let attempt =
                    Attempt::new(rules.roll_back_here, &[LINE, seen, seen & !BELOW_VERSION]);
                self.roll_back_here(rules, memory, seen, attempt)
            }
            At::RollingBackHere(seen, attempt) => self.roll_back_here(rules, memory, seen, attempt),
            At::BeginFreeHere(seen) => {
                let freed = (seen & !BELOW_VERSION) + VERSION;
                let attempt = Attempt::new(rules.free_here, &[LINE, seen, freed]);
                self.free_here(rules, memory, seen, attempt)
            }
            At::FreeingHere(seen, attempt) => self.free_here(rules, memory, seen, attempt),
            At::Claim(seen) => {
                let by_cpu = 100 + self.cpu;
                let number = if rules.claim_by_call {
                    self.number
                } else {
                    by_cpu
                };
                let claim = (seen & !BELOW_VERSION) + (CLAIM << 14) + number;
                self.at = match exchange(memory, LINE, seen, claim) {
                    true => At::Fence { seen, claim },
                    false => At::Begin {
                        unregistered: false,
                    },
                };
                Effect::Nothing
            }
            At::Fence { seen, claim } => {
                self.at = At::LookAgain(claim);
                let cpu = (state(seen) == HELD).then_some(seen & 0x3fff);
                Effect::Fence(cpu)
            }
            At::LookAgain(claim) => {
                self.at = match memory.load(LINE) == claim {
                    true => At::ReadLog {
                        claim,
                        log: Vec::new(),
                    },
                    false => At::Begin {
                        unregistered: false,
                    },
                };
                Effect::Nothing
            }
            At::ReadLog { claim, mut log } => {
                log.push(memory.load(LINE + 8 + 8 * log.len()));
                self.at = if log.len() < 5 {
                    At::ReadLog { claim, log }
                } else if log[4] == claim & !BELOW_VERSION && rules.roll_back {
                    At::BeginRollBack { claim, log }
                } else {
                    At::GiveBack(claim)
                };
                Effect::Nothing
            }
            At::GiveBack(claim) => {
                exchange(memory, LINE, claim, (claim & !BELOW_VERSION) + VERSION);
                self.at = At::Begin {
                    unregistered: false,
                };
                Effect::Nothing
            }
            At::BeginRollBack { claim, log } => {
                let freed = (claim & !BELOW_VERSION) + VERSION;
                let arguments = [LINE, claim, freed, log[0], log[1], log[2], log[3]];
                let attempt = Attempt::new(rules.rollback, &arguments);
                self.roll_back(rules, memory, claim, log, attempt)
            }
            At::RollingBack {
                claim,
                log,
                attempt,
            } => self.roll_back(rules, memory, claim, log, attempt),
            At::Reading(seen, mut words) => {
                if words.len() < 2 {
                    words.push(memory.load([FIRST, SECOND][words.len()]));
                    self.at = At::Reading(seen, words);
                    return Effect::Nothing;
                }
                if rules.validate && memory.load(LINE) != seen {
                    self.at = At::Begin {
                        unregistered: false,
                    };
                    return Effect::Nothing;
                }
                Effect::Read([words[0], words[1]])
            }
        }
    }

    fn begin(
        &mut self,
        task: &Task,
        rules: &Rules,
        memory: &mut Memory,
        unregistered: bool,
    ) -> Effect {
        if *task == Task::Read {
            let seen = memory.load(LINE);
            self.at = match seen & BELOW_VERSION {
                0 => At::Reading(seen, Vec::new()),
                _ => stopped(seen),
            };
            return Effect::Nothing;
        }
        if unregistered {
            let value = self
                .attempt(task, rules)
                .run(sequence(task, rules), memory, usize::MAX);
            assert_eq!(value.words, [UNREGISTERED]);
            self.at = At::Begin {
                unregistered: false,
            };
            return Effect::Left(sequence(task, rules).name, Some(0), Ending::Other);
        }
        let attempt = self.attempt(task, rules);
        self.exchange(task, rules, memory, attempt, None)
    }

    fn attempt(&self, task: &Task, rules: &Rules) -> Attempt {
        let program = sequence(task, rules);
        match *task {
            Task::Exchange(old, new) => Attempt::new(
                program,
                &[LINE, FIRST, old[0], new[0], SECOND, old[1], new[1]],
            ),
            Task::Since(version, new) => Attempt::new(
                program,
                &[LINE, version * VERSION, FIRST, new[0], SECOND, new[1]],
            ),
            Task::Read => unreachable!("a reader has no section"),
        }
    }

    fn exchange(
        &mut self,
        task: &Task,
        rules: &Rules,
        memory: &mut Memory,
        mut attempt: Attempt,
        mut leaving: Option<usize>,
    ) -> Effect {
        let program = sequence(task, rules);
        if !advance(program, &mut attempt, &mut leaving, memory, self.cpu) {
            self.at = At::Exchanging(attempt, leaving);
            return Effect::Nothing;
        }
        let way_out = leaving;
        let result = attempt.outcome().expect("it has ended").words[0];
        let ending = match result {
            DONE => Ending::Exchanged,
            // The lock has another version, or the words differ.
            CHANGED if matches!(task, Task::Exchange(..)) => Ending::FoundChange,
            _ => Ending::Other,
        };
        self.at = match result {
            DONE | CHANGED => At::Over,
            BUSY => At::Look,
            other => panic!("no exchange ends with {other}"),
        };
        Effect::Left(program.name, way_out, ending)
    }

    fn look(&mut self, task: &Task, memory: &Memory) -> Effect {
        let seen = memory.load(LINE);
        let over = match task {
            Task::Since(version, _) => seen >> 16 != *version,
            _ => false,
        };
        self.at = match seen & BELOW_VERSION {
            _ if over => At::Over,
            0 => At::Begin {
                unregistered: false,
            },
            _ => stopped(seen),
        };
        Effect::Nothing
    }

    fn roll_back_here(
        &mut self,
        rules: &Rules,
        memory: &mut Memory,
        seen: usize,
        mut attempt: Attempt,
    ) -> Effect {
        let program = rules.roll_back_here;
        let mut way_out = None;
        if !advance(program, &mut attempt, &mut way_out, memory, self.cpu) {
            self.at = At::RollingBackHere(seen, attempt);
            return Effect::Nothing;
        }
        let result = attempt.outcome().expect("it has ended").words[0];
        let (at, ending) = match result {
            DONE => (At::Look, Ending::RolledBack),
            UNLOGGED => (At::BeginFreeHere(seen), Ending::Other),
            ELSEWHERE | LOST => (At::Claim(seen), Ending::Other),
            other => panic!("no rollback ends with {other}"),
        };
        self.at = at;
        Effect::Left(program.name, way_out, ending)
    }

    fn free_here(
        &mut self,
        rules: &Rules,
        memory: &mut Memory,
        seen: usize,
        mut attempt: Attempt,
    ) -> Effect {
        let program = rules.free_here;
        let mut way_out = None;
        if !advance(program, &mut attempt, &mut way_out, memory, self.cpu) {
            self.at = At::FreeingHere(seen, attempt);
            return Effect::Nothing;
        }
        self.at = match way_out {
            None => At::Look,
            Some(_) => At::Claim(seen),
        };
        Effect::Left(program.name, way_out, Ending::Other)
    }

    fn roll_back(
        &mut self,
        rules: &Rules,
        memory: &mut Memory,
        claim: usize,
        log: Vec<usize>,
        mut attempt: Attempt,
    ) -> Effect {
        let program = rules.rollback;
        let mut way_out = None;
        if !advance(program, &mut attempt, &mut way_out, memory, self.cpu) {
            self.at = At::RollingBack {
                claim,
                log,
                attempt,
            };
            return Effect::Nothing;
        }
        let result = attempt.outcome().expect("it has ended").words[0];
        let ending = match result {
            DONE => Ending::RolledBack,
            LOST => Ending::Other,
            other => panic!("no rollback ends with {other}"),
        };
        self.at = At::Look;
        Effect::Left(program.name, way_out, ending)
    }
}

/// Returns the position that follows when a stopped holder or claimant has the lock.
fn stopped(seen: usize) -> At {
    match state(seen) {
        HELD => At::BeginRollBackHere(seen),
        _ => At::Claim(seen),
    }
}

fn sequence(task: &Task, rules: &Rules) -> &'static Program {
    match task {
        Task::Since(..) => rules.store_pair_if,
        _ => rules.exchange,
    }
}

/// Runs up to the second memory access from here, so that the step contains exactly one access. The
/// instructions before it touch only registers, so no other thread can distinguish their timing.
/// Returns `true` if the sequence has ended; `leaving` is then the exit.
pub(crate) fn advance(
    program: &Program,
    attempt: &mut Attempt,
    leaving: &mut Option<usize>,
    memory: &mut Memory,
    cpu: usize,
) -> bool {
    let mut accessed = false;
    while let Some(step) = attempt.next(program) {
        let accesses = attempt.touches(program) != (None, None);
        if accesses && accessed {
            return false;
        }
        accessed |= accesses;
        attempt.step(program, memory, cpu);
        if let Step::Exit { exit, .. } = step {
            // Only an exit leads from a branch directly to the commit.
            let to_commit = matches!(attempt.next(program), Some(Step::Commit { .. }));
            if attempt.outcome().is_some() || to_commit && program.by_commit.contains(&exit) {
                *leaving = Some(exit);
            }
        }
    }
    true
}

/// Compares and swaps; returns whether it swapped.
pub(crate) fn exchange(memory: &mut Memory, at: usize, old: usize, new: usize) -> bool {
    let found = memory.load(at) == old;
    if found {
        memory.store(at, new);
    }
    found
}
