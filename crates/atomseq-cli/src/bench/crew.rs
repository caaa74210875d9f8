//! The threads of an experiment: started once, pinned, and told by a board which case to run next. A run begins when all
//! of them have met, and reports the time from the first one's start to the last one's end.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(target_os = "linux")]
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::engine::{Case, Fault};
use crate::error::Error;
use crate::machine;

/// Measures on a thread of its own, for pinning is for good. What it sends as it goes on is what `advance` is called with.
///
/// # Errors
///
/// [`Error::Thread`] if the system refuses the thread; else what the measurement returns.
#[cfg(target_os = "linux")]
pub fn measure_aside<T: Send>(
    advance: &dyn Fn(f64),
    measure: impl FnOnce(&Sender<f64>) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let (shares, told) = mpsc::channel();
    thread::scope(|scope| {
        let work = move || {
            machine::pin(machine::allowed_cpus()[0]);
            measure(&shares)
        };
        let measured = thread::Builder::new().spawn_scoped(scope, work);
        let measured = measured.map_err(|source| Error::Thread {
            started: 0,
            wanted: 1,
            source,
        })?;
        told.iter().for_each(advance);
        measured
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What all threads are to do next.
#[derive(Clone, Copy)]
enum Job {
    /// Prepare every case.
    Prepare,
    /// Run this case for so many operations.
    Run(usize, u64),
    /// End.
    Leave,
}

/// What the threads and their director tell each other.
struct Board {
    hired: usize,
    /// Counts the jobs, so that a thread knows a new one from the last.
    number: u64,
    job: Job,
    finished: usize,
    started_at: Option<Instant>,
    ended_at: Option<Instant>,
    fault: Option<Fault>,
}

/// The threads of one experiment.
pub struct Crew<'a> {
    cases: &'a [Case],
    cpus: &'a [usize],
    board: Mutex<Board>,
    new_job: Condvar,
    all_finished: Condvar,
    /// How many times a thread has come to the start of a run.
    arrivals: AtomicU64,
}

impl<'a> Crew<'a> {
    /// A crew without threads yet.
    pub fn new(cases: &'a [Case], cpus: &'a [usize]) -> Self {
        Self {
            cases,
            cpus,
            board: Mutex::new(Board {
                hired: 0,
                number: 0,
                job: Job::Prepare,
                finished: 0,
                started_at: None,
                ended_at: None,
                fault: None,
            }),
            new_job: Condvar::new(),
            all_finished: Condvar::new(),
            arrivals: AtomicU64::new(0),
        }
    }

    /// Starts the threads.
    pub fn hire<'s>(&'s self, scope: &'s Scope<'s, '_>, threads: usize) -> Result<(), Error> {
        for thread in 0..threads {
            thread::Builder::new()
                .name(format!("bench-{thread}"))
                .spawn_scoped(scope, move || self.work(thread))
                .map_err(|source| Error::Thread {
                    started: thread,
                    wanted: threads,
                    source,
                })?;
            self.board().hired += 1;
        }
        Ok(())
    }

    /// How many threads share the most crowded CPU.
    pub fn crowding(&self) -> usize {
        self.board().hired.div_ceil(self.cpus.len())
    }

    /// Lets every thread prepare every case.
    pub fn prepare(&self) -> Result<(), Fault> {
        self.direct(Job::Prepare).map(|_| ())
    }

    /// Lets every thread run a case at once, and says how long that took.
    pub fn run(&self, case: usize, operations: u64) -> Result<Duration, Fault> {
        self.direct(Job::Run(case, operations))
    }

    /// Ends the threads when dropped.
    pub fn dismissal(&self) -> impl Drop + use<'_, 'a> {
        Dismissal(self)
    }

    fn direct(&self, job: Job) -> Result<Duration, Fault> {
        let mut board = self.board();
        board.number += 1;
        (board.job, board.finished) = (job, 0);
        (board.started_at, board.ended_at) = (None, None);
        self.new_job.notify_all();
        while board.finished < board.hired {
            board = self
                .all_finished
                .wait(board)
                .unwrap_or_else(PoisonError::into_inner);
        }
        match board.fault.take() {
            Some(fault) => Err(fault),
            None => Ok(board
                .started_at
                .zip(board.ended_at)
                .map_or(Duration::ZERO, |(start, end)| end - start)),
        }
    }

    /// What a thread does.
    fn work(&self, thread: usize) {
        // A refusal is in the environment record, found out before any experiment.
        machine::pin(self.cpus[thread % self.cpus.len()]);
        let mut last = 0;
        loop {
            let (job, hired) = {
                let mut board = self.board();
                while board.number == last {
                    board = self
                        .new_job
                        .wait(board)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                last = board.number;
                (board.job, board.hired)
            };
            let mut case = 0;
            let mut times = None;
            let worked = catch_unwind(AssertUnwindSafe(|| match job {
                Job::Leave => false,
                Job::Prepare => {
                    for (index, prepared) in self.cases.iter().enumerate() {
                        case = index;
                        prepared.subject.prepare(thread);
                    }
                    true
                }
                Job::Run(index, operations) => {
                    case = index;
                    self.meet(hired);
                    let start = Instant::now();
                    self.cases[index].subject.run(thread, operations);
                    times = Some((start, Instant::now()));
                    true
                }
            }));
            let mut board = self.board();
            match worked {
                Ok(true) => (),
                Ok(false) => return,
                Err(panic) => board.fault = Some((case, sentence_of(panic.as_ref()))),
            }
            if let Some((start, end)) = times {
                board.started_at = Some(board.started_at.map_or(start, |first| first.min(start)));
                board.ended_at = Some(board.ended_at.map_or(end, |last| last.max(end)));
            }
            board.finished += 1;
            if board.finished == board.hired {
                self.all_finished.notify_one();
            }
        }
    }

    /// Waits until all threads are here. Where they share CPUs they could not all be running, so nobody waits.
    fn meet(&self, hired: usize) {
        if hired > self.cpus.len() {
            return;
        }
        // Relaxed: it only says that a thread has come; what the run needs went over the board's mutex.
        let hired = hired as u64;
        let mine = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let all = (mine / hired + 1) * hired;
        let mut spins = 0_u32;
        while self.arrivals.load(Ordering::Relaxed) < all {
            spins = spins.saturating_add(1);
            // Another process may have the CPU of the one who is missing.
            if spins < 10_000 {
                std::hint::spin_loop()
            } else {
                thread::yield_now()
            }
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Dismissal<'c, 'a>(&'c Crew<'a>);

impl Drop for Dismissal<'_, '_> {
    fn drop(&mut self) {
        let mut board = self.0.board();
        board.number += 1;
        board.job = Job::Leave;
        self.0.new_job.notify_all();
    }
}

fn sentence_of(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without a message"))
}
