//! OS-assisted stacks in arrays: the sequences of `nonblocking/stack.rs` as data, and the rest of
//! the protocol, `dcas/shadow.rs`, step by step, under every order of steps, interruptions and
//! fences that few threads allow.
//!
//! The checked properties, in every order:
//!
//! * each completed change agrees with a sequential model at that time: a pop returns what the
//!   model's pop returns;
//! * whenever the lock is free, the length and the cells in use are the model's;
//! * a refusal, and a returned length, was correct at some time during the call;
//! * from one in sixteen reached states, each thread completes when it runs alone, in whatever
//!   states the others are stopped. The exception is a thread that has locked the structure, which
//!   cannot be revoked.
//!
//! The kernel is that of [`dcas`](crate::dcas). Revoking a holder leaves the version unchanged, so
//! no bound on versions is needed: a thread changes it once for each of its tasks.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use atomseq::sequence::model::{Memory, Program};
pub use thread::Task;
use thread::{At, Effect, Thread};

use crate::dcas::{BELOW_VERSION, CLAIM, HELD, VERSION, fingerprint, program, state};

mod thread;

/// The protections, each of which can be switched off.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A fence ends the sections on its CPUs.
    pub fence: bool,
    /// A thread that replaces a claim fences all CPUs; otherwise it relies on the claimant to have
    /// done so.
    pub fence_for_claims: bool,
    /// A claim identifies the call that made it; otherwise all claims look alike.
    pub claim_by_call: bool,
    /// A thread releases the lock only if it still holds it.
    pub free_own: bool,
    /// A thread that reads a state loads the lock again.
    pub validate: bool,
    /// Puts a word in.
    pub put: &'static Program,
    /// Takes a word out.
    pub take: &'static Program,
    /// Puts a word in, even if it is another CPU's turn.
    pub put_anyway: &'static Program,
    /// Takes a word out, even if it is another CPU's turn.
    pub take_anyway: &'static Program,
    /// Releases the lock of a holder on the same CPU.
    pub free_here: &'static Program,
}

impl Rules {
    /// Returns the library's protections.
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
            free_here: program("free_here"),
        }
    }
}

/// A setting to explore.
#[derive(Clone, Debug)]
pub struct Setting {
    /// A short name.
    pub name: &'static str,
    /// The words that the stack holds at first.
    pub words: Vec<usize>,
    /// The tasks of each thread, in order.
    pub threads: Vec<Vec<Task>>,
    /// The number of interruptions without a cause in the model.
    pub interruptions: usize,
}

/// The number of words that fit.
pub const CAPACITY: usize = 2;

/// The extent of an exploration.
#[derive(Debug, Default)]
pub struct Explored {
    /// The number of states.
    pub states: usize,
    /// The number of interrupted sections, whatever interrupted them.
    pub aborts: usize,
    /// The number of completed changes.
    pub done: usize,
    /// The number of refusals and of lengths read.
    pub read: usize,
    /// The ways out of each sequence that were taken: `None` is the end.
    pub ways_out: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
}

/// The addresses of the lock, the states and the cells.
const LOCK: usize = 0x1000;
const STATES: usize = LOCK + 8;
const CELLS: usize = 0x2000;

const FREE: usize = 0;
const LOCKED: usize = 3;

/// Returns the address of the state for the version in a lock's word.
fn side(lock: usize) -> usize {
    STATES + 8 * (lock / VERSION % 2)
}

/// Returns the address of the cell at this index from the bottom.
fn cell(place: usize) -> usize {
    CELLS + 8 * (place % CAPACITY)
}

// Every order of steps.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: Memory,
    threads: Vec<Thread>,
    /// The correct content: the result of the completed changes.
    right: VecDeque<usize>,
    interruptions: usize,
}

const CPUS: usize = 2;

/// From one in this number of states each thread runs alone.
const EVERY: usize = 16;

/// More steps than any thread alone needs to complete.
const ALONE: usize = 200;

/// Exhausts the states of a setting.
///
/// # Errors
///
/// The violation found, and the steps that lead to it.
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
        // The first thread is unregistered at the beginning.
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
        // Depth first with an explicit stack, because paths are long.
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

    /// Checks that the thread completes if no other thread runs.
    fn alone(&mut self, number: usize, state: &State) -> Result<(), String> {
        let mut state = state.clone();
        for _ in 0..ALONE {
            if self.task(number, &state).is_none() {
                return Ok(());
            }
            let is_locked = self::state(state.memory.load(LOCK)) == LOCKED;
            if is_locked && state.threads[number].at == At::Look {
                // It waits for a thread that has locked, which cannot be revoked.
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

    /// Applies a completed change to the model, and compares the results.
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

/// Checks that length and cells are correct whenever the lock is free.
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
