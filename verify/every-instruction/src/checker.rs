//! Runs scenarios, interrupting them at each instruction of each window that they reach.
//!
//! **How it works.** A first run, in which each window is aborted once at its start, finds the
//! windows that the operation enters. Then the operation runs once for each boundary of these
//! windows (before the first instruction, before each other one, and after the last) and each
//! [`Interruption`], with a breakpoint there. The trap is a signal to the thread, so the kernel
//! aborts the section as a preemption at this instruction would. The handler then runs an
//! interference, moves the thread to another CPU, does both, or does nothing. Finally, results and
//! content are compared with those of uninterrupted runs of the same calls, with the interference
//! before the operation or after it. In addition, the gate of each window is closed once, just
//! before the operation loads it.
//!
//! **What it proves.** Every instruction of every window in this program was interrupted, by every
//! interference of some scenario. A window that no scenario reached is reported and fails the test.
//! The kernel aborted where it must and nowhere else, and every outcome was that of a serial order.
//! Nothing is modelled: the machine code itself runs, the kernel itself aborts, and the code around
//! sections handles the abort. A run has one interruption; the model checker (`verify/model`)
//! covers several. A move waits until the thread is scheduled on the other CPU, so only a few
//! scenarios move at the same instruction.

use std::time::Duration;

use crate::gate;
use crate::reach::Reachable;
use crate::scenario::{Check, Interruption, Outcome, Scenario, Words};
use verify_support::code::table::{self, Window};
use verify_support::code::trap::{self, Kind, Stop};
use verify_support::cpus::{self, Cpus, move_to};
use verify_support::watchdog::Watchdog;

/// The number of scenarios that move the thread at the same instruction: each move waits for two
/// CPUs.
const SCENARIOS_MOVED: usize = 2;
/// The number of kinds of moves.
const MOVES: usize = 3;

/// Runs scenarios, and records what was covered and which violations were found.
pub struct Checker {
    windows: Vec<Window>,
    covered: Vec<Vec<bool>>,
    moved: Vec<Vec<usize>>,
    gates: Vec<bool>,
    cpus: Cpus,
    watchdog: Watchdog,
    /// The number of interrupted runs.
    pub runs: usize,
    /// The violations found.
    pub violations: Vec<String>,
}

impl Checker {
    /// Returns a checker of these windows of this program.
    pub fn new(windows: Vec<Window>) -> Checker {
        let cpus = Cpus::allowed();
        move_to(cpus.home);
        for window in &windows {
            trap::unlock(window.boundaries[0]..window.end + 1);
        }
        let lengths = || windows.iter().map(|window| window.boundaries.len());
        Checker {
            covered: lengths().map(|length| vec![false; length]).collect(),
            moved: lengths().map(|length| vec![0; length]).collect(),
            gates: vec![false; windows.len()],
            windows,
            cpus,
            watchdog: Watchdog::start(Duration::from_secs(20)),
            runs: 0,
            violations: Vec::new(),
        }
    }

    /// Returns the windows that are checked.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Returns the pairs of window and instruction at which an interruption happened, and the
    /// number of all pairs.
    pub fn pairs(&self) -> (usize, usize) {
        let covered = self.covered.iter().flatten().filter(|covered| **covered);
        (covered.count(), self.covered.iter().flatten().count())
    }

    /// Returns the number of windows whose gate was found closed.
    pub fn gates(&self) -> usize {
        self.gates.iter().filter(|met| **met).count()
    }

    /// Drops the windows in code that cannot be reached, and returns their names. Panics if one of
    /// them was interrupted.
    pub fn set_unreachable_aside(&mut self) -> Vec<String> {
        let reachable = Reachable::of_this_program(table::SECTION);
        let (mut aside, mut index) = (Vec::new(), 0);
        while let Some(window) = self.windows.get(index) {
            let interrupted = self.covered[index].contains(&true);
            if reachable.leads_to(window.address) {
                index += 1;
                continue;
            }
            assert!(!interrupted, "{} ran, and nothing leads to it", window.name);
            aside.push(self.windows.remove(index).name);
            self.covered.remove(index);
            self.moved.remove(index);
            self.gates.remove(index);
        }
        aside
    }

    /// Returns the instructions that no scenario reached, and the windows whose gate none tested.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (index, window) in self.windows.iter().enumerate() {
            for (boundary, covered) in self.covered[index].iter().enumerate() {
                if !covered {
                    missed.push(window.describe(boundary));
                }
            }
            if window.slot.is_some() && !self.gates[index] {
                missed.push(format!("{}: never met a closed gate", window.name));
            }
        }
        missed
    }

    /// Returns, in order, the windows that the operation runs through when each of them is aborted
    /// once.
    fn reached<S: 'static>(&self, scenario: &Scenario<S>) -> Vec<usize> {
        self.watchdog.at(&*scenario.name);
        let stops: Vec<Stop> = self
            .windows
            .iter()
            .map(|window| window.at_start(Kind::Pass))
            .collect();
        move_to(self.cpus.home);
        let structure = (scenario.fresh)();
        trap::run(&stops, &mut |_| (), || (scenario.operation)(&structure));
        let mut reached: Vec<(usize, usize)> = stops
            .iter()
            .enumerate()
            .filter_map(|(window, stop)| Some((stop.met()?.order, window)))
            .collect();
        reached.sort_unstable();
        reached.into_iter().map(|(_, window)| window).collect()
    }

    fn interrupt<S: 'static>(
        &mut self,
        scenario: &Scenario<S>,
        interruption: Interruption,
        reached: &[usize],
        target: usize,
        boundary: usize,
        expected: &[Outcome; 2],
    ) {
        let restarts = self.windows[target].restarts(boundary);
        // The second copy of a sequence runs only after the first was aborted. A rare interruption
        // that this test did not cause may happen in between.
        for alone in [true, false, false] {
            self.watchdog.goes_on();
            let stops = self.stops(reached, target, boundary, alone);
            move_to(self.cpus.home);
            let structure = (scenario.fresh)();
            let mut interference = Words::new();
            let operation = trap::run(
                &stops,
                &mut |_| interference = scenario.interfere(&structure, interruption, self.cpus),
                || (scenario.operation)(&structure),
            );
            move_to(self.cpus.home);
            let outcome = Outcome {
                operation,
                interference,
                content: (scenario.content)(&structure),
            };
            let Some(met) = stops[0].met() else { continue };
            self.runs += 1;
            self.covered[target][boundary] = true;
            self.moved[target][boundary] += usize::from(interruption.moves());
            let mut wrong = Vec::new();
            if met.aborted != restarts {
                wrong.push(format!(
                    "the kernel restarted it: {}, and should: {restarts}",
                    met.aborted
                ));
            }
            wrong.extend(scenario.judge(&outcome, expected));
            let window = &self.windows[target];
            for wrong in wrong {
                self.violations.push(format!(
                    "{} ({}; {}): {wrong}",
                    scenario.name,
                    window.describe(boundary),
                    scenario.describe(interruption),
                ));
            }
            return;
        }
    }

    /// Returns the stop to act at and, unless it stands alone, one at the start of every other
    /// window that was reached.
    fn stops(&self, reached: &[usize], target: usize, boundary: usize, alone: bool) -> Vec<Stop> {
        let window = &self.windows[target];
        let at = window.boundaries[boundary];
        let mut stops = vec![Stop::in_window(at, window.abort, Kind::Act)];
        if !alone {
            let others = reached.iter().filter(|other| **other != target);
            stops.extend(others.map(|other| self.windows[*other].at_start(Kind::Pass)));
        }
        stops
    }

    /// Closes the gate as another thread would, when the operation is about to load it: until it
    /// opens, the operation must wait or leave the slot unchanged.
    fn close_gate<S: 'static>(&mut self, scenario: &Scenario<S>, reached: &[usize], target: usize) {
        let Some(slot) = self.windows[target].slot else {
            return;
        };
        move_to(self.cpus.home);
        let structure = (scenario.fresh)();
        let expected = (
            (scenario.operation)(&structure),
            (scenario.total)(&structure),
        );
        for alone in [true, false, false] {
            self.watchdog.goes_on();
            let stops = self.stops(reached, target, gate::TESTED_AT, alone);
            let structure = (scenario.fresh)();
            let keeper = gate::Keeper::default();
            let operation = std::thread::scope(|scope| {
                let kept = scope.spawn(|| keeper.keep());
                let operation = trap::run(
                    &stops,
                    &mut |registers| keeper.close(gate::value(registers, slot)),
                    || (scenario.operation)(&structure),
                );
                keeper.finished();
                kept.join().expect("the keeper of the gate does not panic");
                operation
            });
            if stops[0].met().is_none() {
                continue;
            }
            self.runs += 1;
            self.gates[target] = true;
            let outcome = (operation, (scenario.total)(&structure));
            let mut wrong = keeper.violations();
            if outcome != expected {
                wrong.push(format!("{outcome:?} instead of {expected:?}"));
            }
            for wrong in wrong {
                let name = &self.windows[target].name;
                self.violations.push(format!(
                    "{} ({name}; the gate is closed): {wrong}",
                    scenario.name
                ));
            }
            return;
        }
    }
}

impl Check for Checker {
    fn check<S: 'static>(&mut self, scenario: &Scenario<S>) {
        let reached = self.reached(scenario);
        if reached.is_empty() {
            self.violations
                .push(format!("{}: reaches no window", scenario.name));
        }
        for interruption in scenario.interruptions(self.cpus) {
            cpus::use_other(interruption.moves());
            let expected = scenario.serial(interruption, self.cpus, scenario.content);
            for &window in &reached {
                for boundary in 0..self.windows[window].boundaries.len() {
                    let moved = self.moved[window][boundary];
                    if interruption.moves() && moved >= SCENARIOS_MOVED * MOVES {
                        continue;
                    }
                    self.interrupt(
                        scenario,
                        interruption,
                        &reached,
                        window,
                        boundary,
                        &expected,
                    );
                }
            }
        }
        cpus::use_other(false);
        for &window in &reached {
            self.close_gate(scenario, &reached, window);
        }
    }
}
