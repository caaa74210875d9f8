//! The watch over a target: ends it in time, and notices when nothing goes on any more.

use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::crew::{self, Orders};
use super::lane::Board;
use super::law::{self, Broken};
use super::shared::{Figures, Phase, Shared};
use super::{Target, interrupts};
use crate::patience::Patience;

/// How long nothing may go on, while the watch is awake to look.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long threads may take to stop once a law is broken.
const STOPPING: Duration = Duration::from_secs(3);

/// How long no operation may go on before signals come more rarely.
const STANDSTILL: Duration = Duration::from_secs(1);

/// How often the watch looks.
const LOOK: Duration = Duration::from_millis(50);

/// So much of it; a look that comes late counts as two.
fn patience(all: Duration) -> Patience {
    Patience::new(all, 2 * LOOK)
}

/// What came of a target.
#[derive(Debug)]
pub enum End {
    /// Every law held.
    Held(Figures),
    /// A law was broken.
    Violated {
        /// Which, with its figures.
        broken: Broken,
        /// In which round.
        round: u64,
        /// Who does not stop any more, if anybody.
        stuck: Option<String>,
        /// What had been done.
        figures: Figures,
    },
    /// Nothing went on any more.
    Hung {
        /// Where.
        place: String,
        /// In which round.
        round: u64,
        /// What had been done.
        figures: Figures,
    },
}

/// Runs a target for so long; `tick` is called now and then with the time passed.
///
/// # Errors
///
/// If the system refuses a thread.
pub fn run(
    target: &'static Target,
    orders: &Orders,
    length: Duration,
    mut tick: impl FnMut(Duration),
) -> io::Result<End> {
    let shared = Arc::new(Shared::new(orders.workers));
    let (done, result) = channel();
    {
        let (shared, orders) = (shared.clone(), orders.clone());
        thread::Builder::new()
            .name("director".to_string())
            .spawn(move || {
                // The watch only goes away with the process.
                let _ = done.send(crew::direct(target, &orders, &shared));
            })?;
    }
    let start = Instant::now();
    let signals_before = interrupts::delivered();
    let mut progress = Progress::new(&shared);
    let mut stopping: Option<Patience> = None;
    loop {
        let stuck = match result.recv_timeout(LOOK) {
            Ok(figures) => {
                let figures = figures?;
                return Ok(match law::first() {
                    None => End::Held(figures),
                    Some(broken) => violation(broken, &shared, None, figures),
                });
            }
            Err(RecvTimeoutError::Timeout) => false,
            // It panicked: that is no end to wait for.
            Err(RecvTimeoutError::Disconnected) => true,
        };
        tick(start.elapsed());
        if start.elapsed() >= length {
            shared.end();
        }
        let figures = Figures {
            rounds: shared.round.load(Ordering::Relaxed),
            operations: shared.operations(),
            signals: interrupts::delivered() - signals_before,
            ..Figures::default()
        };
        if let Some(broken) = law::first() {
            let stopping = stopping.get_or_insert_with(|| patience(STOPPING));
            if stopping.is_over() || stuck {
                return Ok(violation(broken, &shared, Some(place(&shared)), figures));
            }
        } else if stuck || progress.has_stopped(&shared, figures.signals, Instant::now()) {
            return Ok(End::Hung {
                place: place(&shared),
                round: figures.rounds,
                figures,
            });
        }
    }
}

fn violation(broken: Broken, shared: &Shared, stuck: Option<String>, figures: Figures) -> End {
    End::Violated {
        broken,
        // Counted up once more by then, unless somebody is stuck in it.
        round: shared.round.load(Ordering::Relaxed) - u64::from(stuck.is_none()),
        stuck,
        figures,
    }
}

/// Whether anything has gone on lately.
struct Progress {
    last: (u64, u64, Phase),
    left: Patience,
    /// Until signals are to come more rarely, and how many had come before.
    standstill: Patience,
    signals: u64,
}

impl Progress {
    fn new(shared: &Shared) -> Progress {
        Progress {
            last: Progress::look(shared),
            left: patience(PATIENCE),
            standstill: patience(STANDSTILL),
            signals: 0,
        }
    }

    fn look(shared: &Shared) -> (u64, u64, Phase) {
        let round = shared.round.load(Ordering::Relaxed);
        // Handlers do not count: they may go on for ever in a worker that does not.
        let operations = shared.workers().map(Board::operations).sum();
        (operations, round, shared.phase())
    }

    /// Looks, after so many signals. Where signals arrive and operations do not go on, the signals
    /// may be why: a debugger or a virtual machine takes longer to deliver one than a timer to send
    /// the next. So they come more rarely; what really hangs, hangs all the same.
    fn has_stopped(&mut self, shared: &Shared, signals: u64, now: Instant) -> bool {
        let seen = Progress::look(shared);
        let goes_on = seen != self.last;
        if goes_on {
            (self.last, self.left) = (seen, patience(PATIENCE));
        }
        if goes_on || self.standstill.is_over_at(now) {
            if !goes_on && signals > self.signals && shared.phase() == Phase::Working {
                shared.slow_down();
            }
            (self.standstill, self.signals) = (patience(STANDSTILL), signals);
        }
        self.left.is_over_at(now)
    }
}

/// Who is in the middle of what.
fn place(shared: &Shared) -> String {
    let phase = match shared.phase() {
        Phase::Preparing => "while a round was made",
        Phase::Working => "while the workers worked",
        Phase::Settling => "while a round was settled",
    };
    let mut text = phase.to_string();
    for (number, board) in shared.boards.iter().enumerate() {
        if !board.is_idle() {
            // Writing to a string cannot fail.
            let _ = write!(text, "; lane {number}: {}", board.doing());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What three workers are seen to do in so many looks: each says how many signals had come, and
    /// whether an operation had. Returns how much more rarely signals come then, and whether
    /// nothing goes on any more.
    fn looks(looks: impl Iterator<Item = (u64, bool)>) -> (u32, bool) {
        let shared = Shared::new(3);
        shared.enter(Phase::Working);
        let mut progress = Progress::new(&shared);
        let mut now = Instant::now();
        let mut has_stopped = false;
        for (signals, goes_on) in looks {
            if goes_on {
                // A round, which counts as much as an operation.
                shared.round.fetch_add(1, Ordering::Relaxed);
            }
            now += 2 * LOOK;
            has_stopped = progress.has_stopped(&shared, signals, now);
        }
        (shared.slowness(), has_stopped)
    }

    #[test]
    fn signals_come_more_rarely_while_only_they_go_on() {
        let second = 10;
        let (slowness, has_stopped) = looks((1..3 * second).map(|look| (look, false)));
        assert_eq!((slowness, has_stopped), (16, false));
        // What hangs all the same is found.
        let (slowness, has_stopped) = looks((1..11 * second).map(|look| (look, false)));
        assert!(slowness > 1_000 && has_stopped, "{slowness}");
        // The controls: operations that go on, and no signals.
        assert_eq!(looks((1..11 * second).map(|look| (look, true))), (1, false));
        assert_eq!(looks((1..11 * second).map(|_| (0, false))), (1, true));
    }
}
