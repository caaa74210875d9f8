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

/// How long nothing may go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long threads may take to stop once a law is broken.
const STOPPING: Duration = Duration::from_secs(3);

/// How often the watch looks.
const LOOK: Duration = Duration::from_millis(50);

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
    let mut violated: Option<Instant> = None;
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
            let since = *violated.get_or_insert_with(Instant::now);
            if stuck || since.elapsed() >= STOPPING {
                return Ok(violation(broken, &shared, Some(place(&shared)), figures));
            }
        } else if stuck || progress.has_stopped(&shared) {
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
    since: Instant,
}

impl Progress {
    fn new(shared: &Shared) -> Progress {
        Progress {
            last: Progress::look(shared),
            since: Instant::now(),
        }
    }

    fn look(shared: &Shared) -> (u64, u64, Phase) {
        let round = shared.round.load(Ordering::Relaxed);
        // Handlers do not count: they may go on for ever in a worker that does not.
        let operations = shared.workers().map(Board::operations).sum();
        (operations, round, shared.phase())
    }

    fn has_stopped(&mut self, shared: &Shared) -> bool {
        let now = Progress::look(shared);
        if now != self.last {
            (self.last, self.since) = (now, Instant::now());
        }
        self.since.elapsed() >= PATIENCE
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
