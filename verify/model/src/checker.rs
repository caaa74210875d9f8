//! Exhausts the states of a structure.
//!
//! **How it works.** A state is the memory between attempts. The search starts with the empty
//! structure and proceeds breadth first. From each state, each call is attempted on each CPU and
//! stepped to its end by the interpreter of `atomseq::sequence::model`. Before each step, and
//! between the words of a copy:
//!
//! * no caller can have observed a change: the content is still that of the state;
//! * the attempt is aborted. The words that it prepared stay as they are, or turn into garbage. The
//!   resulting memory is a new state, from which the restart (on any CPU), any interfering call and
//!   any number of both follow as from every other state: an aborted attempt leaves nothing but
//!   memory behind;
//! * a neighbour's call, on another CPU, runs as a whole, and the attempt then continues without an
//!   abort (tried where either writes what the other touches; elsewhere their order makes no
//!   difference).
//!
//! A sequence that is rolled forward ([`Recovery`]) is not aborted: its interruptions take effect
//! after its end, so no other call observes its intermediate states. Without any recovery, a call
//! on the same CPU runs as a whole before each step, and the attempt continues: a broken mechanism,
//! which must be detected.
//!
//! After the last step, the content and the answer must be those of the call's
//! [meaning](Structure::meaning), which is written down a second time as plain Rust on lists.
//!
//! **What it proves.** Within the bounds of the structure (values, capacity, CPUs, and calls in a
//! row) every history of attempts, aborts and restarts equals a serial one, with each call at the
//! point where it committed or left early. If the search ends before the bound on calls
//! ([`Explored::exhausted`]), the result holds for histories of any length. Garbage stands for any
//! value that an aborted attempt may have left in memory that it had only prepared. Memory is
//! sequentially consistent here; the models under loom check orderings.
//!
//! A violation is reported with a shortest history that leads to it, since states are visited in
//! the order of their distance from the start.

use std::collections::{HashMap, VecDeque};

use atomseq::sequence::model::Memory;

use crate::execution::{Execution, Footprint};
use crate::execution::{Explored, Fault, Violation};
use crate::layout;
use crate::structure::{Call, Content, Recovery, Structure};

/// Exhausts the structure's states.
///
/// # Errors
///
/// The first violation, with a shortest history of calls that leads to it.
pub fn check(structure: &dyn Structure) -> Result<Explored, Box<Violation>> {
    let empty = structure.empty();
    let search = Search {
        structure,
        explored: Explored::default(),
        numbers: HashMap::from([(empty.clone(), 0)]),
        origins: vec![None],
        now: VecDeque::from([(0, empty)]),
        next: VecDeque::new(),
    };
    search.run()
}

struct Search<'a> {
    structure: &'a dyn Structure,
    explored: Explored,
    numbers: HashMap<Memory, usize>,
    origins: Vec<Option<Origin>>,
    /// States to visit: reached by as many calls as the current round, and by one more. An aborted
    /// attempt is not a call, so the state that it leaves belongs to the current round.
    now: VecDeque<(usize, Memory)>,
    next: VecDeque<(usize, Memory)>,
}

/// The predecessor of a state.
struct Origin {
    state: usize,
    event: String,
}

impl Search<'_> {
    fn run(mut self) -> Result<Explored, Box<Violation>> {
        loop {
            while let Some((state, memory)) = self.now.pop_front() {
                self.state(state, &memory)?;
            }
            self.explored.exhausted = self.next.is_empty();
            if self.next.is_empty() || self.explored.history == self.structure.longest_history() {
                self.explored.states = self.numbers.len();
                return Ok(self.explored);
            }
            self.explored.history += 1;
            self.now = std::mem::take(&mut self.next);
        }
    }

    /// Attempts every call on every CPU from one state, then every pair of them on two CPUs.
    fn state(&mut self, state: usize, memory: &Memory) -> Result<(), Box<Violation>> {
        let structure = self.structure;
        let content = structure
            .content(memory)
            .map_err(|why| self.violation(Fault::Broken(why), state, vec![]))?;
        let calls = structure.calls(memory);
        let mut runs = Vec::new();
        for call in &calls {
            for cpu in 0..structure.cpus() {
                let fresh = Execution::new(structure, call, cpu, memory.clone());
                let footprint = self.attempt(state, fresh.clone(), &content)?;
                runs.push((fresh, footprint));
            }
        }
        for (run, footprint) in &runs {
            for (other, others_footprint) in &runs {
                // On one CPU the mechanism separates two calls, unless there is none. Calls of one
                // caller are never concurrent.
                let keeps_out = structure.recovery(run.call.program) != Recovery::Nothing;
                if run.cpu == other.cpu && keeps_out || have_one_caller(run.call, other.call) {
                    continue;
                }
                self.explored.neighbours += 1;
                if !footprint.is_apart_from(others_footprint) {
                    self.explored.meetings += 1;
                    self.meeting(state, run.clone(), other, &content)?;
                }
            }
        }
        Ok(())
    }

    /// Makes one attempt, with an abort before each of its steps; returns its footprint.
    fn attempt(
        &mut self,
        state: usize,
        mut execution: Execution<'_>,
        content: &Content,
    ) -> Result<Footprint, Box<Violation>> {
        let recovery = self.structure.recovery(execution.call.program);
        let restarts = recovery == Recovery::Restart;
        if restarts && !execution.has_its_commit_last() {
            return Err(self.violation(Fault::Shape, state, vec![describe(&execution)]));
        }
        let mut prepared = 0;
        loop {
            let exit = execution.next_exit();
            execution
                .step()
                .map_err(|fault| self.violation(fault, state, vec![progress(&execution)]))?;
            if execution.is_over() {
                self.explored.attempts += 1;
                let name = execution.call.program.name;
                self.explored.ways_out.entry(name).or_default().insert(exit);
                let footprint = execution.footprint.clone();
                let event = describe(&execution);
                match execution.judge(content) {
                    Ok(memory) => self.reached(state, memory, true, || event),
                    Err(fault) => return Err(self.violation(fault, state, vec![event])),
                }
                return Ok(footprint);
            }
            if recovery == Recovery::Rollforward {
                self.explored.rollforwards += 1;
            }
            if !restarts {
                continue;
            }
            execution
                .is_unseen(content)
                .map_err(|fault| self.violation(fault, state, vec![progress(&execution)]))?;
            self.explored.aborts += 1;
            // An abort without further prepared words leaves the same memory as the one before it.
            if execution.prepared() > prepared {
                prepared = execution.prepared();
                self.abort(state, &execution, content)?;
            }
        }
    }

    /// Adds the states that an abort at this point leaves: with the prepared words as they are, and
    /// with garbage in their place.
    fn abort(
        &mut self,
        state: usize,
        execution: &Execution<'_>,
        content: &Content,
    ) -> Result<(), Box<Violation>> {
        for garbage in [false, true] {
            let event = || {
                let how = if garbage { "garbage" } else { "its words" };
                format!("{}, aborted, leaving {how}", progress(execution))
            };
            match execution.aborted(content, garbage) {
                Ok(left) => self.reached(state, left, false, event),
                Err(fault) => return Err(self.violation(fault, state, vec![event()])),
            }
        }
        Ok(())
    }

    /// Runs a neighbour's call as a whole before each step of an attempt, which then continues.
    /// Both must have their meaning, in this order: the attempt has not committed yet.
    fn meeting(
        &mut self,
        state: usize,
        mut execution: Execution<'_>,
        other: &Execution<'_>,
        content: &Content,
    ) -> Result<(), Box<Violation>> {
        while !execution.is_over() {
            let trace = vec![
                progress(&execution),
                format!("meanwhile {}", describe(other)),
            ];
            let disturbed = || {
                let mut neighbour = other.clone();
                neighbour.memory = execution.memory.clone();
                let mut content = content.clone();
                let memory = neighbour.finish(&content)?;
                self.structure.meaning(&mut content, other.call, other.cpu);
                let mut rest = execution.clone();
                rest.memory = memory;
                rest.finish(&content)
            };
            disturbed().map_err(|fault| self.violation(fault, state, trace))?;
            execution
                .step()
                .map_err(|fault| self.violation(fault, state, vec![progress(&execution)]))?;
        }
        Ok(())
    }

    /// Records a state, to be visited if it is new.
    fn reached(
        &mut self,
        from: usize,
        memory: Memory,
        completed: bool,
        event: impl FnOnce() -> String,
    ) {
        if self.numbers.contains_key(&memory) {
            return;
        }
        let number = self.origins.len();
        self.numbers.insert(memory.clone(), number);
        self.origins.push(Some(Origin {
            state: from,
            event: event(),
        }));
        // A completed call makes the history longer by one, so its state belongs to the next round.
        let list = if completed {
            &mut self.next
        } else {
            &mut self.now
        };
        list.push_back((number, memory));
    }

    fn violation(&self, fault: Fault, mut state: usize, last: Vec<String>) -> Box<Violation> {
        let mut trace = last;
        trace.reverse();
        while let Some(origin) = &self.origins[state] {
            trace.push(origin.event.clone());
            state = origin.state;
        }
        trace.reverse();
        let mut explored = self.explored.clone();
        explored.states = self.numbers.len();
        Box::new(Violation {
            fault,
            trace,
            explored,
        })
    }
}

/// Returns whether two calls name the same node or buffer: these have one caller, and never run at
/// the same time.
fn have_one_caller(a: &Call, b: &Call) -> bool {
    let owned = |word: &&usize| **word >= layout::CALLERS && a.passed.contains(word);
    b.passed.iter().any(|word| owned(&word))
}

fn describe(execution: &Execution<'_>) -> String {
    let Call {
        program, passed, ..
    } = execution.call;
    let words: Vec<String> = passed.iter().map(|word| format!("{word:#x}")).collect();
    let (name, cpu) = (program.name, execution.cpu);
    format!("{name}({}) on CPU {cpu}", words.join(", "))
}

fn progress(execution: &Execution<'_>) -> String {
    format!("{}, {} steps in", describe(execution), execution.steps)
}
