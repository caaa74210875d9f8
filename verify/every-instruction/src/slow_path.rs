//! Runs scenarios on the slow path, interrupting them at each of its instructions.
//!
//! The fast path is interrupted once, at its first instruction, with a restart limit of zero; or
//! sections are off for the whole process. Then every instruction that runs with signals unblocked
//! is interrupted by a handler that operates on the same structure. If a gate were held there, the
//! handler would wait for the thread that it interrupted, indefinitely. A stretch with signals
//! blocked gets one signal, which stays pending until its end.

use std::collections::HashMap;
use std::time::Duration;

use crate::scenario::{Check, Interruption, Outcome, Scenario, Words};
use verify_support::code::table::{self, Program, Window};
use verify_support::code::trace::{self, Phase};
use verify_support::code::trap::{self, Kind, Stop};
use verify_support::cpus::{Cpus, move_to};
use verify_support::watchdog::Watchdog;

/// The number of scenarios in which the same instruction is interrupted, before and after blocked
/// stretches each: most of the slow path is the same for all of them. Without optimization it is
/// five times as long.
const SCENARIOS: usize = if cfg!(debug_assertions) { 1 } else { 3 };

/// Runs scenarios, and records what was covered and which violations were found.
pub struct SlowPath {
    program: Program,
    windows: Vec<Window>,
    cpus: Cpus,
    visits: HashMap<(usize, bool), usize>,
    watchdog: Watchdog,
    /// The number of instructions of operations that a second run did not execute.
    pub unmet: usize,
    /// The number of interrupted runs.
    pub runs: usize,
    /// The violations found.
    pub violations: Vec<String>,
}

impl SlowPath {
    /// Interrupts this program's code outside of its windows. An operation that takes longer than
    /// `patience` counts as hung.
    pub fn new(patience: Duration) -> SlowPath {
        let program = Program::this();
        let cpus = Cpus::allowed();
        move_to(cpus.home);
        trap::unlock(program.text());
        atomseq::set_restart_limit(0);
        SlowPath {
            windows: program.windows(table::SECTION),
            program,
            cpus,
            visits: HashMap::new(),
            watchdog: Watchdog::start(patience),
            unmet: 0,
            runs: 0,
            violations: Vec::new(),
        }
    }

    fn phases<S: 'static>(&self, scenario: &Scenario<S>) -> Vec<Phase> {
        self.watchdog.goes_on();
        let structure = (scenario.fresh)();
        let mut phases = trace::trace(self.program.text(), scenario.operation as usize, || {
            (scenario.operation)(&structure);
        });
        for phase in &mut phases {
            phase.addresses.retain(|address| {
                let inside = |window: &Window| (window.start..window.end).contains(address);
                !self.windows.iter().any(inside)
            });
        }
        phases
    }

    /// Returns the windows that an operation enters.
    fn reached<S: 'static>(&self, scenario: &Scenario<S>) -> Vec<usize> {
        let stops: Vec<Stop> = self
            .windows
            .iter()
            .map(|window| window.at_start(Kind::Always))
            .collect();
        let structure = (scenario.fresh)();
        trap::run(&stops, &mut |_| (), || (scenario.operation)(&structure));
        (0..stops.len())
            .filter(|index| stops[*index].met().is_some())
            .collect()
    }

    /// Returns the stops that lead to a phase: the windows are aborted, and the stretches before it
    /// have a signal pending.
    fn before(&self, phases: &[Phase], reached: &[usize]) -> Vec<Stop> {
        let windows = reached
            .iter()
            .map(|window| self.windows[*window].at_start(Kind::Always));
        let blocks = phases.iter().enumerate().map(|(number, phase)| {
            let block = phase.block.expect("every phase but the last ends so");
            Stop::at(block, Kind::Block, number)
        });
        windows.chain(blocks).collect()
    }

    fn run<S: 'static>(
        &self,
        scenario: &Scenario<S>,
        interruption: Interruption,
        stops: &[Stop],
    ) -> Outcome {
        self.watchdog.goes_on();
        let structure = (scenario.fresh)();
        let mut interference = Words::new();
        let operation = trap::run(
            stops,
            &mut |_| interference = scenario.interfere(&structure, interruption, self.cpus),
            || (scenario.operation)(&structure),
        );
        Outcome {
            operation,
            interference,
            content: (scenario.total)(&structure),
        }
    }

    /// Returns how many instructions were interrupted, and how many of them after a stretch with
    /// signals blocked.
    pub fn instructions(&self) -> (usize, usize) {
        let behind = self.visits.keys().filter(|(_, behind)| *behind);
        (self.visits.len(), behind.count())
    }
}

impl Check for SlowPath {
    fn check<S: 'static>(&mut self, scenario: &Scenario<S>) {
        if !scenario.signal_safe {
            return;
        }
        self.watchdog.at(&*scenario.name);
        let mut phases = self.phases(scenario);
        for (number, phase) in phases.iter_mut().enumerate() {
            phase.addresses.retain(|address| {
                let visits = self.visits.entry((*address, number > 0)).or_default();
                *visits += 1;
                *visits <= SCENARIOS
            });
        }
        let reached = self.reached(scenario);
        // An operation that adds, one that takes, and one through the gate.
        let last = scenario.interferences.len() - 1;
        for interference in (0..=last).filter(|index| *index < 2 || *index == last) {
            let interruption = Interruption::Here(interference);
            let expected = scenario.serial(interruption, self.cpus, scenario.total);
            for (number, phase) in phases.iter().enumerate() {
                for address in &phase.addresses {
                    let mut stops = self.before(&phases[..number], &reached);
                    stops.push(Stop::at(*address, Kind::Act, number));
                    let outcome = self.run(scenario, interruption, &stops);
                    self.runs += 1;
                    if stops.iter().any(Stop::missed_act) {
                        self.unmet += 1;
                        continue;
                    }
                    if let Some(wrong) = scenario.judge(&outcome, &expected) {
                        self.violations.push(format!(
                            "{} ({}, phase {number}; {}): {wrong}",
                            scenario.name,
                            self.program.place(*address),
                            scenario.describe(interruption),
                        ));
                    }
                }
            }
        }
    }
}
