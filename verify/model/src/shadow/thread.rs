//! One thread: changes and readers, following the library's `Shadow`, one memory access a step.

use atomseq::sequence::model::{Attempt, Memory, Program};

use super::{
    BELOW_VERSION, CAPACITY, CELLS, CLAIM, FREE, HELD, LOCK, LOCKED, Rules, VERSION, cell, side,
    state,
};
use crate::dcas::{advance, exchange};

/// The results of the sequences; must agree with `dcas/shadow.rs`.
const DONE: usize = 0;
const REFUSED: usize = 1;
const BUSY: usize = 2;
const UNREGISTERED: usize = 3;
const ABORTED: usize = 4;

/// A thread's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Puts this word in.
    Put(usize),
    /// Takes a word out.
    Take,
    /// Reads the length.
    Length,
    /// Puts this word in, by a thread that cannot run sections.
    PutLocked(usize),
    /// Takes a word out, by a thread that cannot run sections.
    TakeLocked,
}

/// A thread's position in its task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// About to begin a section; the thread may be unregistered in the next attempt, and in the one
    /// after it.
    Begin {
        unregistered: bool,
    },
    /// In its section; the exit through which it leaves, if it does.
    Changing(Attempt, Option<usize>),
    /// The section was aborted, and the thread has not noticed yet.
    Aborted,
    /// Loads the lock, to revoke a stopped holder.
    Look,
    /// Releases the lock by a section if the holder's CPU is its own: about to begin that section,
    /// and in it.
    BeginFree(usize),
    FreeHere(usize, Attempt),
    Claim(usize),
    Fence {
        seen: usize,
        claim: usize,
    },
    Free(usize),
    /// Reads the current state: the lock, the state, the lock again.
    Read,
    Reading(usize),
    ReadAgain {
        seen: usize,
        length: usize,
    },
    /// Has locked, and stores the cell, then the state, then the lock.
    Locked(usize),
    LockedState {
        free: usize,
        length: usize,
        word: usize,
    },
    Unlock {
        freed: usize,
        word: usize,
    },
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) number: usize,
    pub(super) cpu: usize,
    pub(super) at: At,
    /// The number of its completed tasks.
    pub(super) done: usize,
    /// Whether it has made an attempt at this task. If so, it changes the state whichever CPU's
    /// turn it is.
    pub(super) again: bool,
}

/// The effect of a step on the rest of the model.
pub(super) enum Effect {
    Nothing,
    /// Ends the sections on this CPU, or on all.
    Fence(Option<usize>),
    /// A sequence has ended through this exit; if the change was made, with its result.
    Left(&'static str, Option<usize>, Option<usize>),
    /// A change without a sequence was made, with this result.
    Made(usize),
    /// The length, in bytes, at this time; a refusal reads nothing else.
    Read(usize),
}

impl Thread {
    pub(super) fn in_section(&self) -> bool {
        matches!(self.at, At::Changing(..) | At::FreeHere(..))
    }

    /// Ends the thread's section: sets the position at which it will resume.
    pub(super) fn abort(&mut self) {
        self.at = match self.at {
            // Retries, perhaps on another CPU.
            At::FreeHere(seen, _) => At::BeginFree(seen),
            _ => At::Aborted,
        };
    }

    /// Returns whether the next step begins a section, on a CPU that the search chooses.
    pub(super) fn begins(&self, task: &Task) -> bool {
        match self.at {
            At::BeginFree(_) => true,
            At::Begin { .. } => matches!(task, Task::Put(_) | Task::Take),
            _ => false,
        }
    }

    /// Continues with its next task.
    fn next(&mut self) {
        self.done += 1;
        self.again = false;
        self.at = BEGIN;
    }

    pub(super) fn step(&mut self, task: &Task, rules: &Rules, memory: &mut Memory) -> Effect {
        match std::mem::replace(&mut self.at, At::Over) {
            At::Over => Effect::Nothing,
            At::Begin { unregistered } => self.begin(task, rules, memory, unregistered),
            At::Changing(attempt, leaving) => self.change(task, rules, memory, attempt, leaving),
            At::Aborted => {
                let result = self
                    .attempt(task, rules)
                    .aborted(self.sequence(task, rules));
                self.again = true;
                assert_eq!(result.map(|result| result.words[0]), Some(ABORTED));
                self.look(memory)
            }
            At::Look => self.look(memory),
            At::BeginFree(seen) => {
                let arguments = [LOCK, seen, seen & !BELOW_VERSION];
                let attempt = Attempt::new(rules.free_here, &arguments);
                self.free_here(rules, memory, seen, attempt)
            }
            At::FreeHere(seen, attempt) => self.free_here(rules, memory, seen, attempt),
            At::Claim(seen) => {
                let number = if rules.claim_by_call { self.number } else { 0 };
                let claim = (seen & !BELOW_VERSION) + (CLAIM << 14) + number;
                self.at = match exchange(memory, LOCK, seen, claim) {
                    true => At::Fence { seen, claim },
                    false => BEGIN,
                };
                Effect::Nothing
            }
            At::Fence { seen, claim } => {
                self.at = At::Free(claim);
                match state(seen) {
                    HELD => Effect::Fence(Some(seen & 0x3fff)),
                    _ if rules.fence_for_claims => Effect::Fence(None),
                    _ => Effect::Nothing,
                }
            }
            At::Free(claim) => {
                let free = claim & !BELOW_VERSION;
                match rules.free_own {
                    true => _ = exchange(memory, LOCK, claim, free),
                    false => memory.store(LOCK, free),
                }
                self.at = BEGIN;
                Effect::Nothing
            }
            At::Read => self.read(memory),
            At::Reading(seen) => {
                let length = memory.load(side(seen));
                self.at = At::ReadAgain { seen, length };
                Effect::Nothing
            }
            At::ReadAgain { seen, length } => {
                if rules.validate && memory.load(LOCK) != seen {
                    self.at = At::Read;
                    return Effect::Nothing;
                }
                let is_answer = match task {
                    Task::Length => true,
                    Task::Put(_) | Task::PutLocked(_) => length == 8 * CAPACITY,
                    Task::Take | Task::TakeLocked => length == 0,
                };
                if is_answer {
                    self.next();
                    return Effect::Read(length);
                }
                self.at = BEGIN;
                Effect::Nothing
            }
            At::Locked(free) => {
                let length = memory.load(side(free));
                let (place, refused) = match task {
                    Task::PutLocked(_) => (length / 8, length == 8 * CAPACITY),
                    _ => ((length / 8).wrapping_sub(1), length == 0),
                };
                if refused {
                    memory.store(LOCK, free);
                    self.next();
                    return Effect::Read(length);
                }
                let cell = cell(place);
                let word = match *task {
                    Task::PutLocked(word) => {
                        memory.store(cell, word);
                        word
                    }
                    _ => memory.load(cell),
                };
                self.at = At::LockedState { free, length, word };
                Effect::Nothing
            }
            At::LockedState { free, length, word } => {
                let freed = free + VERSION;
                let next = match task {
                    Task::PutLocked(_) => length + 8,
                    _ => length - 8,
                };
                memory.store(side(freed), next);
                self.at = At::Unlock { freed, word };
                Effect::Nothing
            }
            At::Unlock { freed, word } => {
                memory.store(LOCK, freed);
                self.next();
                Effect::Made(word)
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
        match task {
            Task::Length => return self.read(memory),
            Task::PutLocked(_) | Task::TakeLocked => {
                let seen = memory.load(LOCK);
                if state(seen) != FREE {
                    return self.look(memory);
                }
                let free = seen & !BELOW_VERSION;
                memory.store(LOCK, free + (LOCKED << 14));
                self.at = At::Locked(free);
                return Effect::Nothing;
            }
            Task::Put(_) | Task::Take => {}
        }
        let program = self.sequence(task, rules);
        let attempt = self.attempt(task, rules);
        if unregistered {
            let value = attempt.run(program, memory, usize::MAX);
            assert_eq!(value.words[0], UNREGISTERED);
            // So that both sequences take this exit.
            let unregistered = !std::mem::replace(&mut self.again, true);
            self.at = At::Begin { unregistered };
            return Effect::Left(program.name, Some(0), None);
        }
        self.change(task, rules, memory, attempt, None)
    }

    fn change(
        &mut self,
        task: &Task,
        rules: &Rules,
        memory: &mut Memory,
        mut attempt: Attempt,
        mut leaving: Option<usize>,
    ) -> Effect {
        let program = self.sequence(task, rules);
        if !advance(program, &mut attempt, &mut leaving, memory, self.cpu) {
            self.at = At::Changing(attempt, leaving);
            return Effect::Nothing;
        }
        let result = &attempt.outcome().expect("it has ended").words;
        let mut made = None;
        self.again = true;
        match result[0] {
            DONE => {
                self.next();
                made = Some(match *task {
                    Task::Put(word) => word,
                    _ => result[1],
                });
            }
            REFUSED => self.at = At::Read,
            BUSY => self.at = At::Look,
            other => panic!("no change ends with {other}"),
        }
        Effect::Left(program.name, leaving, made)
    }

    fn attempt(&self, task: &Task, rules: &Rules) -> Attempt {
        let program = self.sequence(task, rules);
        match *task {
            Task::Put(word) => Attempt::new(program, &[LOCK, CELLS, 8 * CAPACITY, word]),
            _ => Attempt::new(program, &[LOCK, CELLS]),
        }
    }

    fn sequence(&self, task: &Task, rules: &Rules) -> &'static Program {
        match (task, self.again) {
            (Task::Put(_), false) => rules.put,
            (Task::Put(_), true) => rules.put_anyway,
            (_, false) => rules.take,
            (_, true) => rules.take_anyway,
        }
    }

    fn free_here(
        &mut self,
        rules: &Rules,
        memory: &mut Memory,
        seen: usize,
        mut attempt: Attempt,
    ) -> Effect {
        let program = rules.free_here;
        let mut leaving = None;
        if !advance(program, &mut attempt, &mut leaving, memory, self.cpu) {
            self.at = At::FreeHere(seen, attempt);
            return Effect::Nothing;
        }
        // Released at the section's end; otherwise the holder is on another CPU, or another thread
        // holds the lock by now.
        self.at = match leaving {
            None => BEGIN,
            Some(_) => At::Claim(seen),
        };
        Effect::Left(program.name, leaving, None)
    }

    fn look(&mut self, memory: &Memory) -> Effect {
        let seen = memory.load(LOCK);
        self.at = match state(seen) {
            HELD => At::BeginFree(seen),
            CLAIM => At::Claim(seen),
            // Waits for the lock's release.
            LOCKED => At::Look,
            _ => BEGIN,
        };
        Effect::Nothing
    }

    fn read(&mut self, memory: &Memory) -> Effect {
        let seen = memory.load(LOCK);
        if state(seen) != FREE {
            return self.look(memory);
        }
        self.at = At::Reading(seen);
        Effect::Nothing
    }
}

const BEGIN: At = At::Begin {
    unregistered: false,
};
