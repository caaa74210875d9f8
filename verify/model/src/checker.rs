//! Exhausts the states of a structure.
//!
//! A state is the memory between attempts. From each state, each call is attempted on each CPU and
//! stepped to its end. Before each step, and between the words of a copy:
//!
//! * nothing has changed that anybody could see;
//! * the attempt is aborted: what it prepared stays as it is, or turns into garbage. The memory is
//!   a new state, from which the restart (on any CPU), any interfering call and any number of both follow
//!   as from every other state: an aborted attempt leaves nothing but memory behind;
//! * a call by a neighbour, on another CPU, runs as a whole; the attempt then goes on, not aborted.
//!
//! With the last step the content and the answer must be what the call [means](Structure::meaning).
//! So every history is equal to a serial one, with each call where it committed or left early.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use atomseq::sequence::model::{Attempt, Memory, Parameter, Span, Step};

use crate::layout::{self, GARBAGE};
use crate::structure::{Answer, Call, Content, Structure};

/// More steps than any sequence has, with its copies.
const LONGEST: usize = 1000;

/// How much was explored.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Different memories between attempts.
    pub states: usize,
    /// Attempts that ran to their end.
    pub attempts: usize,
    /// Aborts, one for each step of each attempt and each thing it could leave behind.
    pub aborts: usize,
    /// Neighbours' calls in the midst of an attempt.
    pub neighbours: usize,
    /// The longest history: how many calls in a row led to a state that no shorter one leads to.
    pub history: usize,
    /// No longer history leads anywhere new.
    pub exhausted: bool,
    /// The ways out that each sequence took, by its name: its exits by number, `None` the commit.
    pub ways_out: BTreeMap<&'static str, BTreeSet<Option<usize>>>,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} attempts, {} aborts, {} neighbours, histories of {} calls{}",
            self.states,
            self.attempts,
            self.aborts,
            self.neighbours,
            self.history,
            if self.exhausted {
                " (all there are)"
            } else {
                ""
            },
        )
    }
}

/// What a checker found out about a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its only commit is not its last step.
    Shape,
    /// A step touches memory that is not the structure's, or not aligned.
    Outside(Span),
    /// It does not end.
    Endless,
    /// Somebody could see a change before the commit.
    VisibleBeforeCommit { before: Content, after: Content },
    /// The memory is no state of the structure any more.
    Broken(String),
    /// The content afterwards is not that of any serial order.
    WrongContent { expected: Content, found: Content },
    /// The answer is not that of any serial order.
    WrongAnswer { expected: Answer, found: Answer },
}

/// A fault and how to get there.
#[derive(Clone, Debug)]
pub struct Violation {
    /// What is wrong.
    pub fault: Fault,
    /// What happened up to there, an event a line.
    pub trace: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.trace {
            writeln!(f, "  {event}")?;
        }
        write!(f, "  => {:?}", self.fault)
    }
}

/// Where a state came from.
struct Origin {
    state: usize,
    event: String,
}

/// Exhausts the structure's states.
///
/// # Errors
///
/// The first violation, with the shortest history of calls that leads to it.
pub fn check(structure: &dyn Structure) -> Result<Explored, Box<Violation>> {
    Search::new(structure).run()
}

struct Search<'a> {
    structure: &'a dyn Structure,
    explored: Explored,
    numbers: HashMap<Memory, usize>,
    origins: Vec<Option<Origin>>,
    /// States to look at: reached by as many calls as the current round, and by one more.
    now: Vec<(usize, Memory)>,
    next: Vec<(usize, Memory)>,
}

/// One call on one CPU from one state.
struct Run<'a> {
    call: &'a Call,
    cpu: usize,
    state: usize,
}

impl<'a> Search<'a> {
    fn new(structure: &'a dyn Structure) -> Search<'a> {
        let empty = structure.empty();
        Search {
            structure,
            explored: Explored::default(),
            numbers: HashMap::from([(empty.clone(), 0)]),
            origins: vec![None],
            now: vec![(0, empty)],
            next: Vec::new(),
        }
    }

    fn run(mut self) -> Result<Explored, Box<Violation>> {
        loop {
            while let Some((state, memory)) = self.now.pop() {
                self.state(state, &memory)?;
            }
            self.explored.exhausted = self.next.is_empty();
            if self.next.is_empty() || self.explored.history == self.structure.longest_history() {
                break;
            }
            self.explored.history += 1;
            self.now = std::mem::take(&mut self.next);
        }
        self.explored.states = self.numbers.len();
        Ok(self.explored)
    }

    /// Every call on every CPU from one state.
    fn state(&mut self, state: usize, memory: &Memory) -> Result<(), Box<Violation>> {
        let calls = self.structure.calls(memory);
        assert!(!calls.is_empty(), "{} has no calls", self.structure.name());
        for call in &calls {
            for cpu in 0..self.structure.cpus() {
                let run = Run { call, cpu, state };
                self.attempt(&run, memory, &calls)?;
            }
        }
        Ok(())
    }

    /// One attempt, aborted and disturbed before each of its steps.
    fn attempt(
        &mut self,
        run: &Run<'_>,
        before: &Memory,
        calls: &[Call],
    ) -> Result<(), Box<Violation>> {
        let structure = self.structure;
        let at = |step: usize| format!("{}, step {step}", describe(run.call, run.cpu));
        if !has_its_commit_last(run.call) {
            return Err(self.violation(Fault::Shape, run.state, vec![at(0)]));
        }
        let content = structure.content(before);
        let content =
            content.map_err(|why| self.violation(Fault::Broken(why), run.state, vec![at(0)]))?;
        let mut memory = before.clone();
        let mut attempt = begin(run.call, run.cpu);
        for step in 0.. {
            // Reached with `step` steps done.
            if step > 0 {
                self.aborted(run, step, &attempt, &memory, &content)?;
            }
            for (neighbour, other) in self.neighbours(run, calls) {
                let trace = vec![
                    at(step),
                    format!("meanwhile {}", describe(neighbour, other)),
                ];
                self.explored.neighbours += 1;
                self.disturbed(
                    run,
                    attempt.clone(),
                    memory.clone(),
                    &content,
                    (neighbour, other),
                )
                .map_err(|fault| self.violation(fault, run.state, trace))?;
            }
            let last = attempt.next(run.call.program);
            advance(
                structure,
                run.call,
                run.cpu,
                &mut attempt,
                &mut memory,
                step,
            )
            .map_err(|fault| self.violation(fault, run.state, vec![at(step)]))?;
            if attempt.outcome().is_some() {
                self.explored.attempts += 1;
                let way = match last {
                    Some(Step::Exit { exit, .. }) => Some(exit),
                    _ => None,
                };
                let ways = self.explored.ways_out.entry(run.call.program.name);
                ways.or_default().insert(way);
                finish(
                    structure,
                    run.call,
                    run.cpu,
                    &attempt,
                    &mut memory,
                    &content,
                )
                .map_err(|fault| self.violation(fault, run.state, vec![at(step)]))?;
                self.reached(run.state, memory, true, || describe(run.call, run.cpu));
                return Ok(());
            }
            unchanged(structure, &memory, &content)
                .map_err(|fault| self.violation(fault, run.state, vec![at(step)]))?;
        }
        unreachable!("the steps are counted by `advance`")
    }

    /// What an abort at this point leaves: what was prepared, as it is and as garbage.
    fn aborted(
        &mut self,
        run: &Run<'_>,
        step: usize,
        attempt: &Attempt,
        memory: &Memory,
        content: &Content,
    ) -> Result<(), Box<Violation>> {
        let mut scrambled = memory.clone();
        for span in attempt.prepared() {
            scrambled.store_bytes(span.address, GARBAGE, span.bytes);
        }
        for (mut left, how) in [(memory.clone(), "as it was"), (scrambled, "garbage")] {
            let event = || {
                let call = describe(run.call, run.cpu);
                format!("{call} aborted after {step} steps, leaving what it prepared {how}")
            };
            self.explored.aborts += 1;
            forget(run.call, &mut left);
            unchanged(self.structure, &left, content)
                .map_err(|fault| self.violation(fault, run.state, vec![event()]))?;
            self.reached(run.state, left, false, event);
        }
        Ok(())
    }

    /// Calls that other CPUs could run meanwhile. A caller's buffer and its nodes are its own.
    fn neighbours<'c>(&self, run: &Run<'_>, calls: &'c [Call]) -> Vec<(&'c Call, usize)> {
        let others = (0..self.structure.cpus()).filter(|cpu| *cpu != run.cpu);
        let apart = |call: &&Call| {
            let shared = |word: &usize| *word >= layout::CALLERS && run.call.words.contains(word);
            !call.words.iter().any(shared)
        };
        others
            .flat_map(|cpu| calls.iter().filter(apart).map(move |call| (call, cpu)))
            .collect()
    }

    /// The rest of an attempt after a neighbour's call.
    fn disturbed(
        &self,
        run: &Run<'_>,
        mut attempt: Attempt,
        mut memory: Memory,
        content: &Content,
        (neighbour, other): (&Call, usize),
    ) -> Result<(), Fault> {
        let mut content = content.clone();
        let mut neighbours = begin(neighbour, other);
        for step in 0.. {
            advance(
                self.structure,
                neighbour,
                other,
                &mut neighbours,
                &mut memory,
                step,
            )?;
            if neighbours.outcome().is_some() {
                break;
            }
        }
        finish(
            self.structure,
            neighbour,
            other,
            &neighbours,
            &mut memory,
            &content,
        )?;
        self.structure.meaning(&mut content, neighbour, other);
        for step in 0.. {
            advance(
                self.structure,
                run.call,
                run.cpu,
                &mut attempt,
                &mut memory,
                step,
            )?;
            if attempt.outcome().is_some() {
                break;
            }
        }
        finish(
            self.structure,
            run.call,
            run.cpu,
            &attempt,
            &mut memory,
            &content,
        )
    }

    /// Notes a state, to be looked at if it is new.
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
        let list = if completed {
            &mut self.next
        } else {
            &mut self.now
        };
        list.push((number, memory));
    }

    fn violation(&self, fault: Fault, state: usize, last: Vec<String>) -> Box<Violation> {
        let mut trace = Vec::new();
        let mut state = state;
        while let Some(origin) = &self.origins[state] {
            trace.push(origin.event.clone());
            state = origin.state;
        }
        trace.reverse();
        trace.extend(last);
        Box::new(Violation { fault, trace })
    }
}

fn describe(call: &Call, cpu: usize) -> String {
    let words: Vec<String> = call.words.iter().map(|word| format!("{word:#x}")).collect();
    format!("{}({}) on CPU {cpu}", call.program.name, words.join(", "))
}

/// B91 2.4: one visible store, the last step.
fn has_its_commit_last(call: &Call) -> bool {
    let is_commit = |step: &&Step| matches!(step, Step::Commit { .. });
    let steps = call.program.steps;
    steps.iter().filter(is_commit).count() == 1 && steps.last().is_some_and(|step| is_commit(&step))
}

fn begin(call: &Call, cpu: usize) -> Attempt {
    let mut words = call.words.iter();
    let arguments: Vec<usize> = call
        .program
        .parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Slot(_) => layout::slot(cpu),
            Parameter::Word(_) => *words.next().expect("a word for each parameter"),
        })
        .collect();
    assert!(words.next().is_none(), "more words than parameters");
    Attempt::new(call.program, &arguments)
}

/// One step, unless it touches what it must not.
fn advance(
    structure: &dyn Structure,
    call: &Call,
    cpu: usize,
    attempt: &mut Attempt,
    memory: &mut Memory,
    step: usize,
) -> Result<(), Fault> {
    if step > LONGEST {
        return Err(Fault::Endless);
    }
    let (read, written) = attempt.touches(call.program);
    for span in [read, written].into_iter().flatten() {
        let aligned = span.address % span.bytes == 0;
        let mapped = layout::is_mapped(span.address, structure.cpus(), structure.bulk_bytes());
        if !aligned || !mapped {
            return Err(Fault::Outside(span));
        }
    }
    attempt.step(call.program, memory, cpu);
    Ok(())
}

fn unchanged(structure: &dyn Structure, memory: &Memory, content: &Content) -> Result<(), Fault> {
    let after = structure.content(memory).map_err(Fault::Broken)?;
    if after == *content {
        return Ok(());
    }
    Err(Fault::VisibleBeforeCommit {
        before: content.clone(),
        after,
    })
}

/// Judges a finished attempt, and takes the caller's buffer away.
fn finish(
    structure: &dyn Structure,
    call: &Call,
    cpu: usize,
    attempt: &Attempt,
    memory: &mut Memory,
    content: &Content,
) -> Result<(), Fault> {
    let mut expected_content = content.clone();
    let expected = structure.meaning(&mut expected_content, call, cpu);
    let value = attempt.outcome().expect("only called at the end").clone();
    let found = Answer {
        filled: (0..expected.filled.len())
            .map(|index| memory.load(call.fills.start + 8 * index))
            .collect(),
        value,
    };
    let found_content = structure.content(memory).map_err(Fault::Broken)?;
    if found_content != expected_content {
        return Err(Fault::WrongContent {
            expected: expected_content,
            found: found_content,
        });
    }
    if found != expected {
        return Err(Fault::WrongAnswer { expected, found });
    }
    forget(call, memory);
    Ok(())
}

/// The caller's buffer is its own business between attempts.
fn forget(call: &Call, memory: &mut Memory) {
    for address in call.fills.clone().step_by(8) {
        memory.store(address, 0);
    }
}
