//! OS-assisted DCAS: the sequences of `dcas/assisted/` as data, and the rest of the protocol step
//! by step, under every order of steps, interruptions and fences that few threads and versions
//! allow.
//!
//! The checked properties, in every order:
//!
//! * an exchange that completes had both old values before it, and one that reports a change had
//!   not;
//! * whenever the lock is free, the words are the result of the completed exchanges;
//! * a reader's words are those of one point in time.
//!
//! The kernel is modelled as far as it matters. A section ends when its thread is interrupted
//! anywhere in it, when another thread runs on its CPU, and when a fence reaches that CPU. A thread
//! may be on another CPU whenever it begins a section, and may stop indefinitely between two steps.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use atomseq::internals::{DCAS_SEQUENCES, NONBLOCKING_SEQUENCES};
use atomseq::sequence::model::{Memory, Program, Step};
pub use thread::Task;
use thread::{At, Effect, Ending, Thread};
pub(crate) use thread::{advance, exchange};

mod thread;

/// The protections, each of which can be switched off.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A fence ends the sections on its CPUs.
    pub fence: bool,
    /// The logged partial update is rolled back.
    pub roll_back: bool,
    /// A claim identifies the call that made it; otherwise only the CPU on which it was made.
    pub claim_by_call: bool,
    /// A reader loads the lock again after the words.
    pub validate: bool,
    /// The exchange by values.
    pub exchange: &'static Program,
    /// The exchange that compares the version.
    pub store_pair_if: &'static Program,
    /// The rollback of either exchange.
    pub rollback: &'static Program,
    /// The rollback on the CPU of the exchange that it rolls back.
    pub roll_back_here: &'static Program,
    /// The release of the lock on that CPU, if there is nothing to roll back.
    pub free_here: &'static Program,
}

impl Rules {
    /// Returns the library's protections.
    pub fn all() -> Rules {
        Rules {
            fence: true,
            roll_back: true,
            claim_by_call: true,
            validate: true,
            exchange: program("exchange"),
            store_pair_if: program("store_pair_if"),
            rollback: program("roll_back"),
            roll_back_here: program("roll_back_here"),
            free_here: program("free_here"),
        }
    }
}

/// A setting to explore.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A short name.
    pub name: &'static str,
    /// The task of each thread.
    pub tasks: Vec<Task>,
    /// The number of CPUs.
    pub cpus: usize,
    /// The largest version; states beyond it are not explored.
    pub versions: usize,
    /// The number of interruptions without a cause in the model.
    pub interruptions: usize,
}

/// The extent of an exploration.
#[derive(Debug, Default)]
pub struct Explored {
    /// The number of states.
    pub states: usize,
    /// The number of interrupted sections, whatever interrupted them.
    pub aborts: usize,
    /// The number of completed exchanges.
    pub done: usize,
    /// The number of exchanges that sections have rolled back.
    pub rolled_back: usize,
    /// The ways out of each sequence that were taken: `None` is the end.
    pub ways_out: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
}

/// Returns the sequence of this name in `dcas` or `nonblocking`.
///
/// # Panics
///
/// If there is none.
pub fn program(name: &str) -> &'static Program {
    let all = [DCAS_SEQUENCES, NONBLOCKING_SEQUENCES].concat();
    let mut all = all.iter().flat_map(|(_, programs)| programs.iter());
    all.find(|program| program.name == name)
        .unwrap_or_else(|| panic!("the library has no sequence {name}"))
}

/// Returns a program with its steps changed.
pub fn changed(program: &'static Program, change: impl FnOnce(&mut Vec<Step>)) -> &'static Program {
    let mut steps = program.steps.to_vec();
    change(&mut steps);
    Box::leak(Box::new(Program {
        steps: Vec::leak(steps),
        ..*program
    }))
}

/// The addresses of the lock, the log and the words.
pub(crate) const LINE: usize = 0x1000;
pub(crate) const FIRST: usize = 0x2000;
pub(crate) const SECOND: usize = 0x3000;

pub(crate) const VERSION: usize = 1 << 16;
pub(crate) const BELOW_VERSION: usize = 0xffff;
pub(crate) const HELD: usize = 1;
pub(crate) const CLAIM: usize = 2;

/// Returns the state of a lock's word.
pub(crate) fn state(lock: usize) -> usize {
    lock >> 14 & 3
}

// Every order of steps.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Memory,
    threads: Vec<Thread>,
    /// The correct values of the words: the result of the completed exchanges.
    right: [usize; 2],
    interruptions: usize,
}

impl State {
    /// Returns whether no section has begun yet.
    fn is_first(&self) -> bool {
        let is_at_start = |thread: &Thread| matches!(thread.at, At::Begin { .. });
        let is_untouched = self.memory.words().eq([(LINE, VERSION)]);
        is_untouched && self.threads.iter().all(is_at_start)
    }
}

/// Exhausts the states of a setting.
///
/// # Errors
///
/// The violation found, and the steps that lead to it.
pub fn check(setting: &Setting, rules: &Rules) -> Result<Explored, String> {
    let mut memory = Memory::default();
    memory.store(LINE, VERSION);
    let threads = (0..setting.tasks.len()).map(|number| Thread {
        number,
        cpu: 0,
        at: At::Begin {
            unregistered: false,
        },
    });
    let mut start = State {
        memory,
        threads: threads.collect(),
        right: [0, 0],
        interruptions: setting.interruptions,
    };
    // The first thread is unregistered at the beginning.
    if setting.tasks[0] != Task::Read {
        start.threads[0].at = At::Begin { unregistered: true };
    }
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

/// Hashes a state to 128 bits. States of the same fingerprint are taken to be equal, which keeps
/// millions of them in memory.
pub(crate) fn fingerprint(state: &impl Hash) -> u128 {
    let half = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, state).hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(1)) << 64 | u128::from(half(2))
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
        // Depth first with an explicit stack, because paths are long.
        let mut stack = vec![(0, String::new(), start)];
        while let Some((depth, event, state)) = stack.pop() {
            self.path.truncate(depth);
            self.path.push(event);
            for (event, next) in self.successors(&state)? {
                if self.seen.insert(fingerprint(&next)) {
                    stack.push((depth + 1, event, next));
                }
            }
        }
        Ok(())
    }

    fn successors(&mut self, state: &State) -> Result<Vec<(String, State)>, String> {
        // The successors of a state: each thread is interrupted if it is in a section, and each
        // thread makes one step, on every CPU that it may be on.
        let mut all = Vec::new();
        if state.memory.load(LINE) / VERSION > self.setting.versions {
            return Ok(all);
        }
        for number in 0..state.threads.len() {
            let thread = &state.threads[number];
            if thread.at == At::Over {
                continue;
            }
            if thread.in_section() && state.interruptions > 0 {
                let mut next = state.clone();
                next.interruptions -= 1;
                next.threads[number].abort();
                self.explored.aborts += 1;
                all.push((format!("{number} is interrupted"), next));
            }
            let cpus = match thread.begins(&self.setting.tasks[number]) {
                // The CPUs are interchangeable until the first section begins.
                true if state.is_first() => 0..1,
                true => 0..self.setting.cpus,
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
        let State {
            memory,
            threads,
            right,
            ..
        } = state;
        let task = &self.setting.tasks[number];
        let was_in_section = threads[number].in_section() || threads[number].begins(task);
        // The correct words before the step, with which a completed exchange is compared.
        let before = *right;
        let effect = threads[number].step(task, self.rules, memory);
        // A thread in a section runs on its CPU, where no other thread runs then.
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
            // The kernel's fence returns when the sections on its CPUs have ended.
            Effect::Fence(on) => {
                let fence = self.rules.fence;
                end_sections(&|other| fence && on.is_none_or(|cpu| other.cpu == cpu));
            }
            Effect::Left(name, way_out, ending) => {
                let ways_out = self.explored.ways_out.entry(name).or_default();
                ways_out.insert(way_out);
                match (ending, task) {
                    (Ending::Exchanged, Task::Exchange(old, new)) => {
                        if before != *old {
                            return Err(format!("exchanged, but the words were {before:?}"));
                        }
                        *right = *new;
                        self.explored.done += 1;
                    }
                    (Ending::Exchanged, Task::Since(_, new)) => {
                        *right = *new;
                        self.explored.done += 1;
                    }
                    (Ending::FoundChange, Task::Exchange(old, _)) if before == *old => {
                        return Err("found a change where there is none".to_string());
                    }
                    (Ending::RolledBack, _) => self.explored.rolled_back += 1,
                    _ => {}
                }
            }
            // A reader's last step validates its words, so they must be those of this time.
            Effect::Read(words) => {
                if words != *right {
                    return Err(format!("read {words:?} instead of {right:?}"));
                }
            }
        }
        Ok(())
    }

    fn story(&self, event: &str, wrong: &str) -> String {
        format!(
            "{}: {wrong}\n{}\n{event}",
            self.setting.name,
            self.path.join("\n")
        )
    }
}

/// Checks that the words are correct whenever the lock is free.
fn invariant(state: &State) -> Result<(), String> {
    let words = [FIRST, SECOND].map(|word| state.memory.load(word));
    match state.memory.load(LINE) & BELOW_VERSION == 0 && words != state.right {
        true => Err(format!(
            "the lock is free, and the words are {words:?} instead of {:?}",
            state.right
        )),
        false => Ok(()),
    }
}
