//! Stacks in arrays where the kernel helps: the sequences of `nonblocking/stack.rs` as data, and
//! the rest of the protocol, `dcas/shadow.rs`, step by step, under every order of steps,
//! interruptions and fences that few threads allow.
//!
//! What is checked, whatever the order:
//!
//! * each change that reaches its end does what it does to a sequential model at that time: a pop
//!   returns what the model's does;
//! * whenever the lock is free, the length and the cells in use are the model's;
//! * who is refused, and who asks for the length, is told what was so at some time in the call;
//! * from one in sixteen states that are reached, each thread alone comes to its end, whatever
//!   state the others were stopped in, unless one of them has locked the structure so that nobody
//!   can throw it out.
//!
//! The kernel is that of [`dcas`](crate::dcas). The version stays what it was when a holder is
//! thrown out, so no bound on versions is needed: a thread changes it once for each of its tasks.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use atomseq::sequence::model::{Memory, Program};
pub use thread::Task;
use thread::{At, Effect, Thread};

use crate::dcas::fingerprint;

mod thread;

/// What protects, each to be switched off in turn.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A fence ends the sections on its CPUs.
    pub fence: bool,
    /// Who replaces a claim fences all CPUs; otherwise none, as if the one whose claim it was had
    /// done it.
    pub fence_for_claims: bool,
    /// A claim tells which call made it; otherwise all look alike.
    pub claim_by_call: bool,
    /// The lock is given back only if it is still one's own.
    pub free_own: bool,
    /// Who reads a state looks at the lock again.
    pub validate: bool,
    /// What puts a word in.
    pub put: &'static Program,
    /// What takes one out.
    pub take: &'static Program,
    /// The same two, also if it is another CPU's turn.
    pub put_anyway: &'static Program,
    /// See there.
    pub take_anyway: &'static Program,
    /// What frees the lock of a holder on the same CPU.
    pub free_here: &'static Program,
}

impl Rules {
    /// As in the library.
    pub fn library() -> Rules {
        Rules {
            fence: true,
            fence_for_claims: true,
            claim_by_call: true,
            free_own: true,
            validate: true,
            put: program("push"),
            take: program("pop"),
            put_anyway: program("push_anyway"),
            take_anyway: program("pop_anyway"),
            free_here: crate::dcas::program("free_here"),
        }
    }
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Setting {
    /// In a few words.
    pub name: &'static str,
    /// What it holds at first.
    pub words: Vec<usize>,
    /// What each thread does, one after the other.
    pub threads: Vec<Vec<Task>>,
    /// How often a thread is interrupted for no reason that is part of the model.
    pub interruptions: usize,
}

/// How many words fit.
pub const CAPACITY: usize = 2;

/// What was explored.
#[derive(Debug, Default)]
pub struct Explored {
    /// How many states.
    pub states: usize,
    /// How many sections were interrupted, by whatever.
    pub aborts: usize,
    /// How many changes reached their end.
    pub done: usize,
    /// How often somebody was refused, or read the length.
    pub read: usize,
    /// The ways out of each sequence that were taken: `None` is the end.
    pub ways_out: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
}

/// The library's sequence of this name.
///
/// # Panics
///
/// If there is none.
fn program(name: &str) -> &'static Program {
    let mut all = atomseq::internals::NONBLOCKING_SEQUENCES
        .iter()
        .flat_map(|(_, programs)| programs.iter());
    all.find(|program| program.name == name)
        .unwrap_or_else(|| panic!("nonblocking has no sequence {name}"))
}

/// Where the lock and the states lie, and the cells.
const LOCK: usize = 0x1000;
const STATES: usize = LOCK + 8;
const CELLS: usize = 0x2000;

const VERSION: usize = 1 << 16;
const BELOW_VERSION: usize = 0xffff;
const FREE: usize = 0;
const HELD: usize = 1;
const CLAIM: usize = 2;
const LOCKED: usize = 3;

/// The state of a lock's word.
fn state(lock: usize) -> usize {
    lock >> 14 & 3
}

/// Where the state of the version in a lock's word lies.
fn side(lock: usize) -> usize {
    STATES + 8 * (lock / VERSION % 2)
}

/// The cell of the word that is so many from the bottom.
fn cell(place: usize) -> usize {
    CELLS + 8 * (place % CAPACITY)
}

// Every order of steps.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Memory,
    threads: Vec<Thread>,
    /// What the changes that reached their end made of it.
    right: VecDeque<usize>,
    interruptions: usize,
}

const CPUS: usize = 2;

/// From one in so many states each thread is left alone.
const EVERY: usize = 16;

/// No thread alone takes as many steps to its end.
const ALONE: usize = 200;

/// Exhausts the states of a setting.
///
/// # Errors
///
/// What was found wrong, and the steps that lead there.
pub fn check(setting: &Setting, rules: &Rules) -> Result<Explored, String> {
    let mut memory = Memory::default();
    // One version for each word that was put in.
    let length = setting.words.len();
    memory.store(LOCK, length * VERSION);
    memory.store(side(length * VERSION), 8 * length);
    for (place, word) in setting.words.iter().enumerate() {
        memory.store(cell(place), *word);
    }
    let threads = (0..setting.threads.len()).map(|number| Thread {
        number,
        cpu: 0,
        // The first thread is not registered at first.
        at: At::Begin {
            unregistered: number == 0,
        },
        done: 0,
        again: false,
    });
    let start = State {
        memory,
        threads: threads.collect(),
        right: setting.words.iter().copied().collect(),
        interruptions: setting.interruptions,
    };
    let mut search = Search {
        setting,
        rules,
        explored: Explored::default(),
        seen: HashSet::from([fingerprint(&start)]),
        path: Vec::new(),
    };
    search.from(start)?;
    search.explored.states = search.seen.len();
    Ok(search.explored)
}

struct Search<'a> {
    setting: &'a Setting,
    rules: &'a Rules,
    explored: Explored,
    seen: HashSet<u128>,
    path: Vec<String>,
}

impl Search<'_> {
    fn from(&mut self, start: State) -> Result<(), String> {
        // Depth first, by a list of our own: the paths are long.
        let mut stack = vec![(0, String::new(), start)];
        let mut popped = 0;
        while let Some((depth, event, state)) = stack.pop() {
            self.path.truncate(depth);
            self.path.push(event);
            for (event, next) in self.successors(&state)? {
                if self.seen.insert(fingerprint(&next)) {
                    stack.push((depth + 1, event, next));
                }
            }
            popped += 1;
            if popped % EVERY == 0 {
                for number in 0..state.threads.len() {
                    self.alone(number, &state)?;
                }
            }
        }
        Ok(())
    }

    /// Does the thread come to its end if nobody else goes on?
    fn alone(&mut self, number: usize, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        for _ in 0..ALONE {
            if self.task(number, &state).is_none() {
                return Ok(());
            }
            let is_locked = self::state(state.memory.load(LOCK)) == LOCKED;
            if is_locked && state.threads[number].at == At::Look {
                // It waits for somebody who cannot be thrown out.
                return Ok(());
            }
            self.step(number, &mut state)?;
        }
        Err(self.story("", &format!("{number} alone does not come to its end")))
    }

    fn task(&self, number: usize, state: &State) -> Option<Task> {
        let tasks = &self.setting.threads[number];
        tasks.get(state.threads[number].done).copied()
    }

    fn successors(&mut self, state: &State) -> Result<Vec<(String, State)>, String> {
        let mut all = Vec::new();
        for number in 0..state.threads.len() {
            let thread = &state.threads[number];
            let Some(task) = self.task(number, state) else {
                continue;
            };
            if thread.in_section() && state.interruptions > 0 {
                let mut next = state.clone();
                next.interruptions -= 1;
                next.threads[number].abort();
                self.explored.aborts += 1;
                all.push((format!("{number} is interrupted"), next));
            }
            let cpus = match thread.begins(&task) {
                true => 0..CPUS,
                false => thread.cpu..thread.cpu + 1,
            };
            for cpu in cpus {
                let mut next = state.clone();
                next.threads[number].cpu = cpu;
                let event = format!("{number} on {cpu}: {:?}", thread.at);
                self.step(number, &mut next)
                    .and_then(|()| invariant(&next))
                    .map_err(|wrong| self.story(&event, &wrong))?;
                all.push((event, next));
            }
        }
        Ok(all)
    }

    fn step(&mut self, number: usize, state: &mut State) -> Result<(), String> {
        let task = self.task(number, state).expect("it has something to do");
        let State {
            memory,
            threads,
            right,
            ..
        } = state;
        let was_in_section = threads[number].in_section() || threads[number].begins(&task);
        let effect = threads[number].step(&task, self.rules, memory);
        // Who runs in a section runs on its CPU, where nobody else does.
        let cpu = threads[number].cpu;
        let is_in_section = was_in_section || threads[number].in_section();
        let mut end_sections = |reached: &dyn Fn(&Thread) -> bool| {
            for other in (0..threads.len()).filter(|other| *other != number) {
                if threads[other].in_section() && reached(&threads[other]) {
                    threads[other].abort();
                    self.explored.aborts += 1;
                }
            }
        };
        end_sections(&|other| is_in_section && other.cpu == cpu);
        match effect {
            Effect::Nothing => {}
            Effect::Fence(on) => {
                let fence = self.rules.fence;
                end_sections(&|other| fence && on.is_none_or(|cpu| other.cpu == cpu));
            }
            Effect::Left(name, way_out, made) => {
                let ways_out = self.explored.ways_out.entry(name).or_default();
                ways_out.insert(way_out);
                if let Some(word) = made {
                    self.make(&task, word, right)?;
                }
            }
            Effect::Made(word) => self.make(&task, word, right)?,
            Effect::Read(length) => {
                self.explored.read += 1;
                if length != 8 * right.len() {
                    return Err(format!("read {length} bytes, not those of {right:?}"));
                }
            }
        }
        Ok(())
    }

    /// The change has reached its end: what does it do to the model?
    fn make(
        &mut self,
        task: &Task,
        word: usize,
        right: &mut VecDeque<usize>,
    ) -> Result<(), String> {
        self.explored.done += 1;
        if let Task::Put(_) | Task::PutLocked(_) = task {
            right.push_back(word);
            return Ok(());
        }
        let expected = right.pop_back();
        match expected == Some(word) {
            true => Ok(()),
            false => Err(format!("took {word}, not {expected:?}")),
        }
    }

    fn story(&self, event: &str, wrong: &str) -> String {
        format!(
            "{}: {wrong}\n{}\n{event}",
            self.setting.name,
            self.path.join("\n")
        )
    }
}

/// Whenever the lock is free, length and cells are right.
fn invariant(state: &State) -> Result<(), String> {
    let lock = state.memory.load(LOCK);
    if self::state(lock) != FREE {
        return Ok(());
    }
    let length = state.memory.load(side(lock)) / 8;
    let cells = (0..length.min(state.right.len())).map(|place| state.memory.load(cell(place)));
    match length == state.right.len() && cells.eq(state.right.iter().copied()) {
        true => Ok(()),
        false => Err(format!(
            "the lock is free, and {length} words lie there, or others, instead of {:?}",
            state.right
        )),
    }
}
