//! Every order of steps.

use std::collections::{HashSet, VecDeque};

use atomseq::sequence::model::Memory;

use super::thread::{At, Effect, Task, Thread};
use super::{Explored, FREE, LOCK, LOCKED, Rules, Setting, VERSION, cell, side};
use crate::dcas::fingerprint;

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
            let is_locked = super::state(state.memory.load(LOCK)) == LOCKED;
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
    if super::state(lock) != FREE {
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
