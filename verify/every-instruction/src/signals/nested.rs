//! Lets signals that cannot be blocked arrive at each instruction of another signal's delivery.
//!
//! ```text
//! sequence  a b │                                                             │ end
//! delivery      └ entry … look-up … rollforward, clone … decision … handler … ┘
//!                 └──────────── each of these instructions ────────┘
//! ```

use std::collections::HashSet;
use std::ffi::c_int;
use std::ops::Range;

use super::deliver::{self, FIRST, UNMASKABLE};
pub use super::interruption::Part;
use super::interruption::{Outcome, serial};
use super::rows::{self, Row};
use super::stepper::{self, Stop};
use crate::scenario::Scenario;
use verify_support::code::steps::vdso;
use verify_support::code::table::Program;
use verify_support::signals::installed;

/// A condition on the order in which the operation and the handlers of both signals appear to have
/// run.
pub type Order = fn(&[Part]) -> bool;

/// Interrupts deliveries, and records the violations found.
pub struct Deliveries {
    program: Program,
    rows: Vec<Row>,
    /// The number of instructions at which a signal arrived.
    pub places: usize,
    /// The number of interrupted runs.
    pub runs: usize,
    /// The violations found.
    pub violations: Vec<String>,
}

impl Deliveries {
    /// Returns deliveries of this program; the handlers are installed already.
    pub fn new() -> Deliveries {
        let program = Program::this();
        let rows = rows::of(&program);
        rows::unlock(&program, &rows);
        Deliveries {
            program,
            rows,
            places: 0,
            runs: 0,
            violations: Vec::new(),
        }
    }

    /// Lets a signal interrupt the scenario's operation in the middle of its first sequence, and
    /// others the delivery of that signal at each instruction of the library, and of the code that
    /// it calls: every signal at the library's instructions, one of them in turn at the others',
    /// which are reached by single-stepping. (Debug builds leave the called code out: it is long.)
    pub fn check<S: 'static>(&mut self, scenario: &Scenario<S>, order: Order) {
        let trace = {
            let structure = (scenario.fresh)();
            stepper::trace(|| drop((scenario.operation)(&structure)))
        };
        let row = trace
            .iter()
            .find_map(|at| self.rows.iter().find(|row| row.start == *at))
            .expect("the operation reaches a sequence")
            .clone();
        let interruption = Stop {
            from: row.boundaries[2],
            at: row.boundaries[2],
            send: vec![FIRST],
        };
        let right: Vec<Outcome> = permutations()
            .into_iter()
            .filter(|parts| order(parts))
            .map(|parts| serial(scenario, &parts))
            .collect();
        let from = entry(FIRST);
        let places = self.places(scenario, &row, &interruption, from);
        for (index, at) in places.into_iter().enumerate() {
            // The harness runs none of it, so a breakpoint may be there.
            let function = self.program.function_at(at);
            let is_ours = function.is_some_and(|(_, name)| name.contains("atomseq"));
            if !is_ours && cfg!(debug_assertions) {
                continue;
            }
            self.places += 1;
            let from = if is_ours { at } else { from };
            for (number, signal) in UNMASKABLE.into_iter().enumerate() {
                if !is_ours && index % UNMASKABLE.len() != number {
                    continue;
                }
                let send = vec![signal];
                let then = Stop { from, at, send };
                self.run(scenario, &[interruption.clone(), then], &right);
            }
        }
    }

    /// Returns the instructions of a delivery, up to the handler or to where the interrupted code
    /// continues.
    fn places<S: 'static>(
        &self,
        scenario: &Scenario<S>,
        row: &Row,
        interruption: &Stop,
        entry: usize,
    ) -> Vec<usize> {
        let handler = deliver::handler();
        let (function, _) = self
            .program
            .function_at(row.start)
            .expect("a function holds the sequence");
        let structure = (scenario.fresh)();
        let ends = [handler..handler + 1, function];
        deliver::with([&mut || {}, &mut || {}, &mut || {}], || {
            trace_delivery(interruption, entry, &ends, || {
                drop((scenario.operation)(&structure));
            })
        })
    }

    fn run<S: 'static>(&mut self, scenario: &Scenario<S>, stops: &[Stop; 2], right: &[Outcome]) {
        let structure = (scenario.fresh)();
        let mut outcome = Outcome::default();
        let interfere = |index: usize| (scenario.interferences[index].1)(&structure);
        let (operation, met) = {
            let (of_first, of_second) = (&mut outcome.first, &mut outcome.second);
            let mut first = || *of_first = interfere(0);
            let mut second = || *of_second = interfere(1);
            deliver::with([&mut first, &mut second, &mut || {}], || {
                stepper::run(stops, || (scenario.operation)(&structure))
            })
        };
        outcome.operation = operation;
        outcome.content = (scenario.content)(&structure);
        self.runs += 1;
        let at = stops[1].at;
        let signal: c_int = stops[1].send[0];
        if met < 2 || !right.contains(&outcome) {
            self.violations.push(format!(
                "{}, its delivery interrupted by {signal} at {}, stop {met} of 2: {outcome:?} is none of {right:?}",
                scenario.name,
                self.program.place(at),
            ));
        }
    }
}

impl Default for Deliveries {
    fn default() -> Deliveries {
        Deliveries::new()
    }
}

/// Returns the instructions of a delivery, each once, from `from` up to the first one that lies in
/// one of `ends`.
pub(super) fn trace_delivery(
    interruption: &Stop,
    from: usize,
    ends: &[Range<usize>],
    body: impl FnOnce(),
) -> Vec<usize> {
    trace_deliveries(std::slice::from_ref(interruption), from, ends, body)
}

/// The same, after these stops.
pub(super) fn trace_deliveries(
    stops: &[Stop],
    from: usize,
    ends: &[Range<usize>],
    body: impl FnOnce(),
) -> Vec<usize> {
    let begin = Stop {
        from,
        at: from,
        send: Vec::new(),
    };
    let mut places = stepper::trace_after(&[stops, &[begin]].concat(), ends, body);
    let (mut seen, clock) = (HashSet::new(), vdso());
    // Which instructions a read of the clock executes depends on the time.
    places.retain(|place| !clock.contains(place) && seen.insert(*place));
    places
}

/// Returns the address that the kernel calls on a signal.
pub(super) fn entry(signal: c_int) -> usize {
    installed(signal).sa_sigaction
}

/// Returns every order of the three parts.
fn permutations() -> Vec<[Part; 3]> {
    let parts = [Part::Operation, Part::First(0), Part::Second(1)];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    orders
        .map(|order: [usize; 3]| order.map(|index| parts[index]))
        .to_vec()
}
