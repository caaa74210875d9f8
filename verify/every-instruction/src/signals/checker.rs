//! Runs scenarios, with signals that arrive at each instruction of each row they reach.
//!
//! **How it works.** A single-stepped trace of the operation finds the places to interrupt: the
//! instructions of rows (sequences with an entry in the program's table) and next to them, of their
//! clones, and of the functions under test in between. For each place and each kind of
//! `Interruption`, the operation runs once; the `stepper` stops it at the place and sends the
//! signals, whose handlers run interferences. Results and content must then be those of a serial
//! order of the operation and the handlers. Inside a sequence the library guarantees the order: a
//! sequence that is rolled forward comes first, one that is restarted comes last.
//!
//! **What it proves.** At every instruction of every row and clone in this program, handlers found
//! the sequence complete or not begun, and the operation was correct afterwards. A place that no
//! scenario reached is reported and fails the test. The controls switch parts of the protection off
//! (`tests/signal_controls.rs`): the same checker must then report violations.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use super::deliver::{self, Counts, FIRST, FOREIGN, SECOND};
use super::interruption::Interruption::{
    self, ForeignInClone, InClone, InForeign, InHandler, One, Two,
};
use super::interruption::{self, Outcome, Part};
use super::rows::{self, Row};
use super::stepper::{self, Stop};
use crate::reach::Reachable;
use crate::scenario::{Check, Scenario};
use verify_support::code::table::Program;
use verify_support::watchdog::Watchdog;

/// Substrings of the names of functions that are interrupted everywhere, not only in their
/// sequences.
const TESTED: [&str; 5] = [
    "atomseq::local::",
    "atomseq::mutex::",
    "signals::registry::local::",
    "signals::registry::restarting::",
    "signals::registry::rolling::",
];

/// The number of scenarios that interrupt a place in a clone or outside of rows: many scenarios
/// reach the same ones.
const SCENARIOS: usize = if cfg!(debug_assertions) { 1 } else { 3 };

/// How many instructions out of a row an early return is followed.
const OUTSIDE: usize = 4;

/// A place in the execution of an operation.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The row that contains it or is next to it; none between rows.
    row: Option<usize>,
    /// Where the breakpoint before it is.
    from: usize,
    /// The instruction.
    at: usize,
}

/// Runs scenarios, and records what was covered and which violations were found.
pub struct Checker {
    program: Program,
    /// The functions under test.
    tested: Vec<Range<usize>>,
    /// The number of scenarios that interrupted a place between rows, or in a clone.
    visits: HashMap<usize, usize>,
    /// The correct outcomes of the current scenario.
    expected: HashMap<(Part, Option<Part>, Option<bool>), Vec<Outcome>>,
    scenarios: usize,
    /// Whether the current operation is a single sequence.
    is_single: bool,
    rows: Vec<Row>,
    covered: Vec<Vec<bool>>,
    cloned: Vec<Vec<bool>>,
    /// Whether the library's handling is active, or switched off as a control.
    managed: bool,
    watchdog: Watchdog,
    /// The number of interrupted runs.
    pub runs: usize,
    /// In how many of them the interruption took effect before the operation, and in how many after
    /// it.
    pub outcomes: [usize; 2],
    /// How many sequences these runs restarted, and how many they rolled forward.
    pub counts: Counts,
    /// The number of runs in which the signal arrived between sequences.
    pub between: usize,
    /// The number of runs in which a handler was interrupted in its own sequence.
    pub nested: usize,
    /// The violations found.
    pub violations: Vec<String>,
}

impl Checker {
    /// Returns a checker of these rows of this program; the handlers are installed already.
    pub fn new(rows: Vec<Row>, managed: bool) -> Checker {
        let program = Program::this();
        rows::unlock(&program, &rows);
        let is_tested = |name: &str| TESTED.iter().any(|tested| name.contains(tested));
        let tested = program.functions().filter(|(_, name)| is_tested(name));
        Checker {
            tested: tested.map(|(place, _)| place).collect(),
            visits: HashMap::new(),
            expected: HashMap::new(),
            scenarios: 0,
            is_single: false,
            program,
            covered: rows
                .iter()
                .map(|row| vec![false; row.boundaries.len()])
                .collect(),
            cloned: rows
                .iter()
                .map(|row| vec![false; row.clone_boundaries().len()])
                .collect(),
            rows,
            managed,
            watchdog: Watchdog::start(Duration::from_secs(20)),
            runs: 0,
            outcomes: [0; 2],
            counts: Counts::default(),
            between: 0,
            nested: 0,
            violations: Vec::new(),
        }
    }

    /// Returns the rows that are checked.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the pairs of row and instruction at which a signal arrived, and the number of all
    /// pairs.
    pub fn pairs(&self) -> (usize, usize) {
        count(&self.covered)
    }

    /// Returns the same for clones.
    pub fn clones(&self) -> (usize, usize) {
        count(&self.cloned)
    }

    /// Drops the rows in code that cannot be reached, and returns their names. Panics if one of
    /// them was interrupted.
    pub fn set_unreachable_aside(&mut self) -> Vec<String> {
        let reachable = Reachable::of_this_program(super::rows::SECTION);
        let (mut aside, mut index) = (Vec::new(), 0);
        while let Some(row) = self.rows.get(index) {
            if reachable.leads_to(row.address) {
                index += 1;
                continue;
            }
            let interrupted = self.covered[index].contains(&true);
            assert!(!interrupted, "{} ran, and nothing leads to it", row.name);
            aside.push(self.rows.remove(index).name);
            self.covered.remove(index);
            self.cloned.remove(index);
        }
        aside
    }

    /// Returns whether another row is the same sequence of the same function, compiled for another
    /// type, and was interrupted everywhere. Not every type's operations execute every sequence.
    fn has_twin(&self, row: &Row) -> bool {
        self.rows.iter().enumerate().any(|(index, twin)| {
            let covered = self.covered[index].iter().chain(&self.cloned[index]);
            covered.clone().all(|covered| *covered)
                && twin.name == row.name
                && twin.code() == row.code()
        })
    }

    /// Returns the number of copies that were never run, because their type's operations do not
    /// execute them, and that have a twin.
    pub fn twins(&self) -> usize {
        let unused = self.rows.iter().enumerate();
        unused
            .filter(|(index, row)| !self.covered[*index].contains(&true) && self.has_twin(row))
            .count()
    }

    /// Returns the instructions that no scenario reached.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            if self.has_twin(row) {
                continue;
            }
            let places = row.boundaries.iter().zip(&self.covered[index]);
            let clones = row.clone_boundaries().into_iter().zip(&self.cloned[index]);
            let all = places.map(|(place, covered)| (*place, *covered));
            let all = all.chain(clones.map(|(place, covered)| (place, *covered)));
            missed.extend(
                all.filter(|(_, covered)| !covered)
                    .map(|(place, _)| row.describe(place)),
            );
        }
        missed
    }

    /// Returns the places in, before and after rows that a call reaches, and all other places in
    /// the code under test.
    fn places(&self, call: impl FnOnce()) -> Vec<Place> {
        self.places_in(&stepper::trace(call))
    }

    fn places_in(&self, trace: &[usize]) -> Vec<Place> {
        let (mut places, mut index): (Vec<Place>, usize) = (Vec::new(), 0);
        while index < trace.len() {
            let row = self.rows.iter().position(|row| row.start == trace[index]);
            let Some(row) = row.filter(|row| !places.iter().any(|place| place.row == Some(*row)))
            else {
                index += 1;
                continue;
            };
            if let Some(before) = index.checked_sub(1).map(|before| trace[before]) {
                places.push(Place {
                    row: Some(row),
                    from: before,
                    at: before,
                });
            }
            let (start, end) = (self.rows[row].start, self.rows[row].end);
            let mut outside = 0;
            while index < trace.len() && outside < OUTSIDE {
                let at = trace[index];
                places.push(Place {
                    row: Some(row),
                    from: start,
                    at,
                });
                index += 1;
                outside += usize::from(!(start..end).contains(&at));
                if at == end {
                    break;
                }
            }
        }
        let mut seen: HashSet<usize> = places.iter().map(|place| place.at).collect();
        let between = trace
            .iter()
            .copied()
            .filter(|at| seen.insert(*at) && self.is_tested(*at));
        let between = between.map(|at| Place {
            row: None,
            from: at,
            at,
        });
        places.extend(between.collect::<Vec<_>>());
        places
    }

    /// Returns whether the code is under test. The harness itself could hit breakpoints elsewhere.
    fn is_tested(&self, at: usize) -> bool {
        let in_row = |row: &Row| (row.start..row.end).contains(&at);
        self.tested.iter().any(|function| function.contains(&at)) && !self.rows.iter().any(in_row)
    }

    /// Runs the operation once, interrupted at these stops; returns its outcome, and how many stops
    /// it met.
    fn run<S: 'static>(
        &self,
        scenario: &Scenario<S>,
        interruption: Interruption,
        stops: &[Stop],
    ) -> (Outcome, usize, Counts) {
        self.watchdog.goes_on();
        let structure = (scenario.fresh)();
        let mut outcome = Outcome::default();
        let interfere = |part: Option<Part>| match part {
            Some(Part::First(index) | Part::Second(index)) => {
                (scenario.interferences[index].1)(&structure)
            }
            _ => Vec::new(),
        };
        let (first, second) = interruption.parts();
        let before = Counts::now(self.managed);
        let (operation, met) = {
            let (outcome_of_first, outcome_of_second) = (&mut outcome.first, &mut outcome.second);
            let mut first = || *outcome_of_first = interfere(Some(first));
            let mut second = || *outcome_of_second = interfere(second);
            let mut foreign = || match interruption {
                InForeign(_) => stepper::send(FIRST),
                _ => stepper::send(SECOND),
            };
            deliver::with([&mut first, &mut second, &mut foreign], || {
                stepper::run(stops, || (scenario.operation)(&structure))
            })
        };
        outcome.operation = operation;
        outcome.content = (scenario.content)(&structure);
        (outcome, met, Counts::now(self.managed) - before)
    }

    fn interrupt<S: 'static>(
        &mut self,
        scenario: &Scenario<S>,
        interruption: Interruption,
        place: Place,
        then: Option<Stop>,
    ) -> bool {
        let send = match interruption {
            Two(..) => vec![FIRST, SECOND],
            InForeign(_) => vec![FOREIGN],
            _ => vec![FIRST],
        };
        let mut stops = vec![Stop {
            from: place.from,
            at: place.at,
            send,
        }];
        stops.extend(then);
        let (outcome, met, counts) = self.run(scenario, interruption, &stops);
        if met < stops.len() {
            return false;
        }
        self.runs += 1;
        self.counts = self.counts + counts;
        self.between += usize::from(place.row.is_none());
        let row = place.row.map(|row| &self.rows[row]);
        let inside = row.filter(|row| row.is_inside(place.at));
        // The order that the library guarantees at this place; elsewhere either order is correct.
        let operation_first = match row {
            Some(_) if inside.is_some() => inside.map(|row| row.clone.is_some()),
            Some(row) if place.at == row.end => Some(true),
            Some(row) if place.at == row.start => Some(false),
            _ => None,
        };
        let mut wrong = Vec::new();
        // With several sequences, the guarantee is about one of them only.
        let asked = operation_first.filter(|_| scenario.whole && self.managed && self.is_single);
        let (first, second) = interruption.parts();
        let expected = self
            .expected
            .entry((first, second, asked))
            .or_insert_with(|| {
                let orders = interruption.orders(asked);
                orders
                    .iter()
                    .map(|order| interruption::serial(scenario, order))
                    .collect()
            });
        if interruption::matching(&outcome, expected, scenario.whole).is_none() {
            wrong.push(format!("{outcome:?} is none of {expected:?}"));
        } else if let Some(first) = operation_first {
            self.outcomes[usize::from(first)] += 1;
        }
        let handled = Counts {
            restarts: u64::from(inside.is_some_and(|row| row.clone.is_none())),
            rollforwards: u64::from(inside.is_some_and(|row| row.clone.is_some())),
        };
        let of_handlers = matches!(interruption, InHandler(..));
        if self.managed && counts != handled && !of_handlers {
            wrong.push(format!("{counts:?}, and should be {handled:?}"));
        }
        for wrong in wrong {
            self.violations.push(format!(
                "{} ({}; {}): {wrong}",
                scenario.name,
                row.map_or_else(
                    || self.program.place(place.at),
                    |row| row.describe(place.at)
                ),
                interruption.describe(|index| scenario.interferences[index].0),
            ));
        }
        true
    }

    /// Returns whether the place was interrupted in enough scenarios. If not, counts one more.
    fn visited(&mut self, at: usize) -> bool {
        let visits = self.visits.entry(at).or_default();
        *visits += 1;
        *visits > SCENARIOS
    }

    fn cover(&mut self, place: Place) {
        let Some(row) = place.row else { return };
        if let Ok(boundary) = self.rows[row].boundaries.binary_search(&place.at) {
            self.covered[row][boundary] = true;
        }
    }

    /// Signals in the clone: the rollforward begins at the sequence's second instruction, and so
    /// runs all of the clone.
    fn in_clone<S: 'static>(&mut self, scenario: &Scenario<S>, place: Place, row: usize) {
        for (index, at) in self.rows[row].clone_boundaries().into_iter().enumerate() {
            if self.visited(at) {
                continue;
            }
            for (send, interruption) in [(SECOND, InClone(0, 0)), (FOREIGN, ForeignInClone(0, 0))] {
                let then = Stop {
                    from: at,
                    at,
                    send: vec![send],
                };
                let met = self.interrupt(scenario, interruption, place, Some(then));
                self.cloned[row][index] |= met;
            }
        }
    }

    /// Signals that interrupt handlers in the middle of their own sequences.
    fn in_handler<S: 'static>(&mut self, scenario: &Scenario<S>, place: Place, first: usize) {
        let structure = (scenario.fresh)();
        let places = self.places(|| drop((scenario.interferences[first].1)(&structure)));
        drop(structure);
        for in_handler in places.into_iter().filter(|place| place.row.is_some()) {
            let then = Stop {
                from: in_handler.from,
                at: in_handler.at,
                send: vec![SECOND],
            };
            let met = self.interrupt(scenario, InHandler(first, 0), place, Some(then));
            self.nested += usize::from(met);
        }
    }
}

fn count(covered: &[Vec<bool>]) -> (usize, usize) {
    let hit = covered.iter().flatten().filter(|covered| **covered).count();
    (hit, covered.iter().flatten().count())
}

impl Check for Checker {
    fn check<S: 'static>(&mut self, scenario: &Scenario<S>) {
        self.watchdog.at(&*scenario.name);
        self.scenarios += 1;
        self.expected.clear();
        let trace = {
            let structure = (scenario.fresh)();
            stepper::trace(|| drop((scenario.operation)(&structure)))
        };
        let starts = trace
            .iter()
            .filter(|at| self.rows.iter().any(|row| row.start == **at));
        self.is_single = starts.count() == 1;
        let places = self.places_in(&trace);
        if places.is_empty() {
            self.violations
                .push(format!("{}: reaches no sequence", scenario.name));
        }
        let indices = 0..scenario.interferences.len();
        let mut interruptions: Vec<Interruption> = indices.clone().map(One).collect();
        interruptions.extend([Two(0, indices.end - 1), InForeign(0)]);
        let mut second_instructions = Vec::new();
        for place in places {
            if place.row.is_none() && self.visited(place.at) {
                continue;
            }
            let ones = place.row.map_or(indices.end, |_| interruptions.len());
            for interruption in &interruptions[..ones] {
                if self.interrupt(scenario, *interruption, place, None) {
                    self.cover(place);
                } else {
                    let place = self.program.place(place.at);
                    self.violations
                        .push(format!("{}: never met {place}", scenario.name));
                }
            }
            let Some(row) = place.row else { continue };
            if self.managed
                && self.rows[row]
                    .boundaries
                    .get(1..)
                    .is_some_and(|later| later.len() > 1 && later[0] == place.at)
            {
                second_instructions.push((place, row));
            }
        }
        for (place, row) in &second_instructions {
            self.watchdog.at(&*scenario.name);
            self.in_clone(scenario, *place, *row);
        }
        // One pair in turn: finding the places in a handler takes longer than interrupting it
        // there. Another operation may come between the two of one interference, so those are left
        // out.
        let single = |index: &usize| !scenario.interferences[*index].0.contains(" and ");
        let singles: Vec<usize> = indices.filter(single).collect();
        if let Some((place, _)) = second_instructions.first() {
            self.in_handler(scenario, *place, singles[self.scenarios % singles.len()]);
        }
    }
}
