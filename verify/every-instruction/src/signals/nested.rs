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

use super::Findings;
use super::deliver::{self, FIRST, UNMASKABLE};
pub use super::interruption::Part;
use super::interruption::{Outcome, serial};
use super::rows::Row;
use super::stepper::{self, Stop};
use crate::scenario::Scenario;
use verify_support::code::steps::vdso;
use verify_support::code::table::Program;
use verify_support::signals::installed;

/// A condition on the order in which the operation and the handlers of both signals appear to have
/// run.
pub type Order = fn(&[Part]) -> bool;

/// Lets a signal interrupt the scenario's operation in the middle of its first sequence, and
/// others the delivery of that signal at each instruction of the library, and of the code that
/// it calls: every signal at the library's instructions, one of them in turn at the others',
/// which are reached by single-stepping. (Debug builds leave the called code out: it is long.)
pub fn check<S: 'static>(found: &mut Findings, scenario: &Scenario<S>, order: Order) {
    let structure = (scenario.fresh)();
    let row = found
        .first_row(|| drop((scenario.operation)(&structure)))
        .expect("the operation reaches a sequence");
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
    let places = places(&found.program, scenario, &row, &interruption, from);
    for (index, at) in places.into_iter().enumerate() {
        let is_ours = found.is_ours(at);
        if !is_ours && cfg!(debug_assertions) {
            continue;
        }
        found.places += 1;
        let from = if is_ours { at } else { from };
        for (number, signal) in UNMASKABLE.into_iter().enumerate() {
            if !is_ours && index % UNMASKABLE.len() != number {
                continue;
            }
            let send = vec![signal];
            let then = Stop { from, at, send };
            run(found, scenario, &[interruption.clone(), then], &right);
        }
    }
}

/// Returns the instructions of a delivery, up to the handler or to where the interrupted code
/// continues.
fn places<S: 'static>(
    program: &Program,
    scenario: &Scenario<S>,
    row: &Row,
    interruption: &Stop,
    entry: usize,
) -> Vec<usize> {
    let handler = deliver::handler();
    let (function, _) = program
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

fn run<S: 'static>(
    found: &mut Findings,
    scenario: &Scenario<S>,
    stops: &[Stop; 2],
    right: &[Outcome],
) {
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
    let signal: c_int = stops[1].send[0];
    let run = format!("{}, its delivery interrupted by {signal}", scenario.name);
    let wrong = format!("stop {met} of 2: {outcome:?} is none of {right:?}");
    let is_right = met == 2 && right.contains(&outcome);
    found.record(&run, stops[1].at, &[(is_right, &wrong)]);
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
