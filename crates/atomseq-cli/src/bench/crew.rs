//! The threads of an experiment. They are started once and pinned; a board names the case to run
//! next. A run begins when all of them have met, and reports the time from the first one's start to
//! the last one's end.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
#[cfg(target_os = "linux")]
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::engine::{Case, Run};
use super::fault::Fault;
use crate::error::{Error, Refused};
use crate::machine;

/// Measures on a thread of its own, for pinning is for good. What it sends as it goes on is what
/// `advance` is called with.
///
/// # Errors
///
/// [`Error::Thread`] if the system refuses the thread; else what the measurement returns.
#[cfg(target_os = "linux")]
pub fn measure_aside<T: Send>(
    advance: &dyn Fn(f64),
    measure: impl FnOnce(&Sender<f64>) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let (shares, received) = mpsc::channel();
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
        received.iter().for_each(advance);
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
    /// Run this case.
    Run(usize, Length),
    /// End.
    Leave,
}

/// How long a run is.
#[derive(Clone, Copy)]
pub struct Length {
    /// The operations of each thread.
    pub operations: u64,
    /// After this many, a thread checks whether the run was ended, if its case may end early.
    pub slice: u64,
    /// Such a run is ended after this time.
    pub patience: Duration,
}

/// What the threads and their director share.
struct Board {
    hired: usize,
    /// Counts the jobs, so that a thread knows a new one from the last.
    number: u64,
    job: Job,
    finished: usize,
    /// How many operations all threads did.
    operations: u64,
    started_at: Option<Instant>,
    ended_at: Option<Instant>,
    /// The faults, by case.
    faults: Vec<(usize, Fault)>,
    /// What the system refused during preparation.
    refused: Option<Refused>,
}

impl Board {
    fn is_at_work(&self) -> bool {
        self.finished < self.hired
    }
}

/// The threads of one experiment.
pub struct Crew<'a> {
    cases: &'a [Case],
    cpus: &'a [usize],
    board: Mutex<Board>,
    new_job: Condvar,
    all_finished: Condvar,
    /// How many times threads have arrived at the start of a run.
    arrivals: AtomicU64,
    /// Whether the run is ended: each thread stops after its slice, if the case may end early.
    /// Relaxed everywhere: a thread reads it after each slice, and data that threads need from each
    /// other goes through the board's mutex.
    is_ended: CachePadded<AtomicBool>,
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
                operations: 0,
                started_at: None,
                ended_at: None,
                faults: Vec::new(),
                refused: None,
            }),
            new_job: Condvar::new(),
            all_finished: Condvar::new(),
            arrivals: AtomicU64::new(0),
            is_ended: CachePadded::default(),
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

    /// Lets every thread prepare every case; returns the faults by case. A case for which a program
    /// or a library is missing is not tried.
    ///
    /// # Errors
    ///
    /// What the system refuses.
    pub fn prepare(&self) -> Result<Vec<(usize, Fault)>, Refused> {
        let mut board = self.all_finish(self.direct(Job::Prepare));
        match board.refused {
            Some(refused) => Err(refused),
            None => Ok(mem::take(&mut board.faults)),
        }
    }

    /// Lets every thread run a case at once, and returns how long that took.
    ///
    /// One that takes longer than its patience is ended, if the case may end early. Each thread
    /// stops where it is: another one may have done all operations at once while it had its CPU to
    /// itself, and as many done in turn might take minutes.
    pub fn run(&self, case: usize, length: Length) -> Result<Run, Fault> {
        self.is_ended.store(false, Ordering::Relaxed);
        let board = self.direct(Job::Run(case, length));
        let (board, _) = self
            .all_finished
            .wait_timeout_while(board, length.patience, |board| board.is_at_work())
            .unwrap_or_else(PoisonError::into_inner);
        // If all have finished, nothing is left to be ended.
        self.is_ended.store(true, Ordering::Relaxed);
        let mut board = self.all_finish(board);
        match mem::take(&mut board.faults).pop() {
            Some((_, fault)) => Err(fault),
            None => Ok(Run {
                operations: board.operations,
                threads: board.hired as u64,
                took: board
                    .started_at
                    .zip(board.ended_at)
                    .map_or(Duration::ZERO, |(start, end)| end - start),
            }),
        }
    }

    /// Ends the threads when dropped.
    pub fn dismissal(&self) -> impl Drop + use<'_, 'a> {
        Dismissal(self)
    }

    /// Gives every thread a job.
    fn direct(&self, job: Job) -> MutexGuard<'_, Board> {
        let mut board = self.board();
        board.number += 1;
        (board.job, board.finished, board.operations) = (job, 0, 0);
        (board.started_at, board.ended_at) = (None, None);
        self.new_job.notify_all();
        board
    }

    /// The board when all have finished.
    fn all_finish<'g>(&'g self, board: MutexGuard<'g, Board>) -> MutexGuard<'g, Board> {
        self.all_finished
            .wait_while(board, |board| board.is_at_work())
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The work of a thread.
    fn work(&self, thread: usize) {
        // A refusal is in the environment record, found before any experiment.
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
            let mut faults = Vec::new();
            let (mut times, mut refused, mut done) = (None, None, 0);
            let mut attempt = |case: usize, work: &mut dyn FnMut() -> Result<(), Fault>| {
                let result = catch_unwind(AssertUnwindSafe(work))
                    .unwrap_or_else(|panic| Err(sentence_of(panic.as_ref()).into()));
                faults.extend(result.err().map(|fault| (case, fault)));
            };
            match job {
                Job::Leave => return,
                Job::Prepare => {
                    for (case, prepared) in self.cases.iter().enumerate() {
                        attempt(case, &mut || match prepared.subject.prepare(thread) {
                            Err(Refused {
                                what,
                                errno: libc::ENOENT,
                            }) => Err(Fault::untried(format!("this machine cannot {what}"))),
                            result => {
                                refused = refused.or(result.err());
                                Ok(())
                            }
                        });
                    }
                }
                Job::Run(case, length) => {
                    self.meet(hired);
                    let subject = &self.cases[case].subject;
                    let slice = match subject.may_end_early() {
                        true => length.slice,
                        false => length.operations,
                    };
                    attempt(case, &mut || {
                        let start = Instant::now();
                        while done < length.operations {
                            let slice = slice.min(length.operations - done);
                            subject.run(thread, slice);
                            done += slice;
                            if self.is_ended.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                        times = Some((start, Instant::now()));
                        Ok(())
                    });
                }
            }
            let mut board = self.board();
            board.faults.append(&mut faults);
            board.operations += done;
            board.refused = board.refused.or(refused);
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

    /// Waits until all threads are here. Where threads share CPUs they could not all be running, so
    /// none waits.
    fn meet(&self, hired: usize) {
        if hired > self.cpus.len() {
            return;
        }
        // Relaxed: it only counts arrivals; the run's data went through the board's mutex.
        let hired = hired as u64;
        let mine = self.arrivals.fetch_add(1, Ordering::Relaxed);
        let all = (mine / hired + 1) * hired;
        let mut spins = 0_u32;
        while self.arrivals.load(Ordering::Relaxed) < all {
            spins = spins.saturating_add(1);
            // Another process may occupy the CPU of the missing thread.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::{GRAIN, Subject};

    /// Slow operations of threads that may or may not depend on each other.
    struct Slow {
        may_end_early: bool,
    }

    impl Subject for Slow {
        fn may_end_early(&self) -> bool {
            self.may_end_early
        }

        /// The first thread does all at once, as if it owned its CPU exclusively.
        fn run(&self, thread: usize, _operations: u64) {
            if thread > 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }

        fn check(&self, _operations: u64) -> Result<(), Fault> {
            Ok(())
        }
    }

    /// The operations of a run of these on two threads.
    fn operations(may_end_early: bool, operations: u64, patience: Duration) -> u64 {
        let cases = [Case::new("slow", Slow { may_end_early })];
        let cpus = machine::allowed_cpus();
        let crew = Crew::new(&cases, &cpus[..1]);
        thread::scope(|scope| {
            let _dismissal = crew.dismissal();
            crew.hire(scope, 2).unwrap();
            let length = Length {
                operations,
                slice: GRAIN,
                patience,
            };
            crew.run(0, length).unwrap().operations
        })
    }

    #[test]
    fn a_run_is_ended_that_takes_longer_than_its_patience() {
        // The second thread would sleep for minutes.
        let minutes = 200_000 * GRAIN;
        let ended = operations(true, minutes, Duration::ZERO);
        assert!((2 * GRAIN..2 * minutes).contains(&ended), "{ended}");
        let hour = Duration::from_secs(3_600);
        assert_eq!(operations(true, 4 * GRAIN, hour), 8 * GRAIN);
    }

    #[test]
    fn a_run_whose_threads_need_each_other_is_not_ended() {
        assert_eq!(operations(false, 400 * GRAIN, Duration::ZERO), 800 * GRAIN);
    }
}
