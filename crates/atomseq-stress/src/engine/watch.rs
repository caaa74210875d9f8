//! The watch over a target: it ends the run, slows down signals that leave no time for operations,
//! and detects that no thread makes progress.
//!
//! A timer may expire faster than the system can deliver its signals: under a debugger, or in a
//! virtual machine that gets less CPU time than it has virtual CPUs. The interrupted threads then
//! make no progress, and no lock or structure is at fault. So a hang is reported only after these
//! steps:
//!
//! ```text
//! fewer operations than signals for 1 second   signals come 4 times less often, again and again
//! no operation for 5 seconds                   timers and signals stop until there is one
//! no operation for 5 more seconds              it hangs
//! ```

use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::crew::{self, Figures, Phase, Shared};
use super::disturb;
use super::invariant::{self, Violation};
use super::{Interruptions, Options, Round, STEPS, Setting, Target};
use crate::patience::Patience;
use crate::system::Load;

/// How long there may be no progress before signals stop, and again before it is a hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long threads may take to stop after a violation.
const STOPPING: Duration = Duration::from_secs(3);

/// The time over which operations are compared with signals.
const WINDOW: Duration = Duration::from_secs(1);

/// How often the watch looks.
const LOOK: Duration = Duration::from_millis(50);

/// How long a run may take to reach its [`Goal`] before it is a failure.
const LIMIT: Duration = Duration::from_secs(600);

fn patience(all: Duration) -> Patience {
    // A look that comes late counts as two.
    Patience::new(all, 2 * LOOK)
}

/// What a run must have done before it ends: all of these.
#[derive(Clone, Copy, Debug, Default)]
pub struct Goal {
    /// So much time.
    pub time: Duration,
    /// So many operations by workers.
    pub operations: u64,
    /// So many signals that reached their handler.
    pub signals: u64,
    /// So many moves.
    pub moves: u64,
    /// So many fences.
    pub fences: u64,
}

impl Goal {
    fn is_reached(&self, passed: Duration, figures: &Figures) -> bool {
        passed >= self.time
            && figures.worked >= self.operations
            && figures.signals >= self.signals
            && figures.moves >= self.moves
            && figures.fences >= self.fences
    }
}

/// The outcome of a run.
#[derive(Debug)]
pub enum End {
    /// All invariants held.
    Held(Figures),
    /// An invariant was violated.
    Violated {
        /// Which, with its figures.
        violation: Violation,
        /// In which round.
        round: u64,
        /// Which lanes did not stop afterwards, if any.
        stuck: Option<String>,
        /// What was done before.
        figures: Figures,
    },
    /// No thread made progress any more.
    Hung {
        /// What each lane was doing.
        place: String,
        /// In which round.
        round: u64,
        /// What may have caused it beside the structure under test.
        cause: Option<String>,
        /// What was done before.
        figures: Figures,
    },
}

impl End {
    /// Returns whether all invariants held.
    pub fn has_held(&self) -> bool {
        matches!(self, End::Held(_))
    }

    /// Returns the figures of a run in which all invariants held.
    ///
    /// # Panics
    ///
    /// If not all did.
    #[track_caller]
    pub fn expect_held(self) -> Figures {
        match self {
            End::Held(figures) => figures,
            End::Violated { violation, .. } => panic!("{violation}"),
            End::Hung { place, cause, .. } => {
                panic!("no progress {place} ({})", cause.unwrap_or_default())
            }
        }
    }
}

/// Runs a target until the goal is reached, an invariant is violated, or no thread makes progress;
/// calls `tick` about 20 times a second with the time passed.
///
/// # Errors
///
/// If the system refuses a thread.
pub fn run(
    target: &'static Target,
    options: &Options,
    goal: Goal,
    mut tick: impl FnMut(Duration),
) -> io::Result<End> {
    disturb::install_handlers(target.interruptions);
    let shared = Arc::new(Shared::new(options.workers));
    let (done, result) = channel();
    let load = Load::now();
    {
        let (shared, options) = (shared.clone(), options.clone());
        thread::Builder::new()
            .name("director".to_string())
            .spawn(move || {
                // The watch outlives it, or the process ends.
                let _ = done.send(crew::direct(target, &options, &shared));
            })?;
    }
    let start = Instant::now();
    let signals_before = disturb::delivered();
    let mut progress = Progress::new(&shared);
    let mut stopping: Option<Patience> = None;
    loop {
        let stuck = match result.recv_timeout(LOOK) {
            Ok(figures) => {
                let figures = figures?;
                return Ok(match invariant::first() {
                    None => End::Held(figures),
                    Some(violation) => violated(violation, &shared, None, figures),
                });
            }
            Err(RecvTimeoutError::Timeout) => false,
            // The director panicked, so it never ends.
            Err(RecvTimeoutError::Disconnected) => true,
        };
        let passed = start.elapsed();
        tick(passed);
        let figures = Figures {
            signals: disturb::delivered() - signals_before,
            ..shared.figures()
        };
        if goal.is_reached(passed, &figures) {
            shared.end();
        }
        if let Some(violation) = invariant::first() {
            let stopping = stopping.get_or_insert_with(|| patience(STOPPING));
            if stopping.is_over() || stuck {
                return Ok(violated(violation, &shared, Some(place(&shared)), figures));
            }
            continue;
        }
        let is_late = passed > goal.time + LIMIT;
        if stuck || is_late || progress.has_stopped(&shared, figures.signals, Instant::now()) {
            return Ok(End::Hung {
                place: place(&shared),
                round: figures.rounds,
                cause: load.and_then(|load| load.cause()),
                figures,
            });
        }
    }
}

/// Runs rounds of a test until the goal is reached, an invariant is violated, or no thread makes
/// progress. A violation stays recorded, so a process in which one was found can run no other test.
///
/// # Panics
///
/// If the system refuses a thread.
#[track_caller]
pub fn test(
    round: fn(&mut Setting) -> Arc<dyn Round>,
    interruptions: Interruptions,
    options: &Options,
    goal: Goal,
) -> End {
    let target = Box::leak(Box::new(Target {
        name: "test",
        group: "test",
        about: "",
        round,
        steps: STEPS,
        interruptions,
        counts: "",
    }));
    run(target, options, goal, |_| ()).expect("threads for the test")
}

fn violated(violation: Violation, shared: &Shared, stuck: Option<String>, figures: Figures) -> End {
    End::Violated {
        violation,
        // The director has counted the round already, unless a worker is stuck in it.
        round: shared.round.load(Ordering::Relaxed) - u64::from(stuck.is_none()),
        stuck,
        figures,
    }
}

/// Whether threads make progress.
struct Progress {
    last: (u64, u64, Phase),
    left: Patience,
    is_calm: bool,
    /// The time until operations and signals are compared, and the number of each at its start.
    window: Patience,
    operations: u64,
    signals: u64,
}

impl Progress {
    fn new(shared: &Shared) -> Progress {
        Progress {
            last: Progress::look(shared),
            left: patience(PATIENCE),
            is_calm: false,
            window: patience(WINDOW),
            operations: 0,
            signals: 0,
        }
    }

    fn look(shared: &Shared) -> (u64, u64, Phase) {
        let Figures { worked, rounds, .. } = shared.figures();
        // Handlers do not count: they may run indefinitely in a worker that makes no progress.
        (worked, rounds, shared.phase())
    }

    /// Takes the steps that the module describes, after so many signals; returns whether it hangs.
    fn has_stopped(&mut self, shared: &Shared, signals: u64, now: Instant) -> bool {
        let seen = Progress::look(shared);
        if seen != self.last {
            (self.last, self.left) = (seen, patience(PATIENCE));
            if self.is_calm {
                self.is_calm = false;
                shared.slow_down();
                shared.calm(false);
            }
        }
        if self.window.is_over_at(now) {
            let came = signals - self.signals;
            if came > seen.0 - self.operations && shared.is_disturbed() {
                shared.slow_down();
            }
            (self.operations, self.signals) = (seen.0, signals);
            self.window = patience(WINDOW);
        }
        if !self.left.is_over_at(now) {
            return false;
        }
        if !self.is_calm {
            self.is_calm = true;
            shared.calm(true);
            self.left = patience(PATIENCE);
            return false;
        }
        true
    }
}

/// Says what the director and each lane are doing.
fn place(shared: &Shared) -> String {
    let phase = match shared.phase() {
        Phase::Preparing => "while a round was made",
        Phase::Working => "while the workers worked",
        Phase::Checking => "during the final check of a round",
    };
    let mut text = phase.to_string();
    for (number, board) in shared.boards.iter().enumerate() {
        if !board.is_idle() {
            // Writing to a string cannot fail.
            let _ = write!(text, "; lane {number}: {}", board.activity());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at three workers. Each item of `looks` says how many signals there were by then, and
    /// whether an operation was made since the look before. Returns by how much signals are slowed
    /// down in the end, and whether it hangs.
    fn outcome(looks: impl Iterator<Item = (u64, bool)>) -> (u32, bool) {
        let shared = Shared::new(3);
        shared.enter(Phase::Working);
        let mut progress = Progress::new(&shared);
        let mut now = Instant::now();
        let mut has_stopped = false;
        for (signals, goes_on) in looks {
            if goes_on {
                // A round, which is progress as well as an operation.
                shared.round.fetch_add(1, Ordering::Relaxed);
            }
            now += 2 * LOOK;
            has_stopped = progress.has_stopped(&shared, signals, now);
        }
        (shared.slowness(), has_stopped)
    }

    /// How many looks there are in a second.
    const SECOND: u64 = 10;

    #[test]
    fn signals_slow_down_while_there_are_fewer_operations() {
        let (slowness, has_stopped) = outcome((1..3 * SECOND).map(|look| (look, false)));
        assert_eq!((slowness, has_stopped), (16, false));
        // Rounds go on, but with fewer operations than signals.
        let (slowness, has_stopped) = outcome((1..3 * SECOND).map(|look| (look, true)));
        assert_eq!((slowness, has_stopped), (16, false));
        // The controls: no signals.
        let outcome = |goes_on| outcome((1..11 * SECOND).map(|_| (0, goes_on)));
        assert_eq!(outcome(true), (1, false));
        assert_eq!(outcome(false), (1, true));
    }

    #[test]
    fn what_makes_no_progress_without_signals_hangs() {
        let (slowness, has_stopped) = outcome((1..11 * SECOND).map(|look| (look, false)));
        assert!(slowness >= 256 && has_stopped, "{slowness}");
    }

    #[test]
    fn what_makes_progress_once_signals_stop_does_not_hang() {
        // An operation is made 7 seconds after the start, 2 seconds after signals stopped.
        let looks = (1..11 * SECOND).map(|look| (look, look == 7 * SECOND));
        assert!(!outcome(looks).1);
    }
}
