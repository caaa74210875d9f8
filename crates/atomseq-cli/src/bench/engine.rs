//! The measuring engine: every case of an experiment in one process, interleaved.
//!
//! A round runs each case once, in an order shuffled anew each round, so that whatever disturbs the machine for longer
//! than a run disturbs all cases alike and a ratio taken within a round stays true. Threads live as long as the
//! experiment, each pinned to one CPU (round robin when there are more threads than CPUs). A run starts when all threads
//! have met, and its time is the joint one: from the first thread's start to the last one's end. One `ns/op` is that
//! time divided by the operations of one thread: what a thread waits for an operation while the others do theirs.

use std::thread;
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::record::Series;
use crate::error::Error;

/// Runs are a multiple of this many operations, so that a subject may work in batches of any power of two up to it.
pub const GRAIN: u64 = 64;

/// Something to be measured.
pub trait Subject: Sync {
    /// Called once by every thread, on its CPU, before the first run.
    fn prepare(&self, _thread: usize) {}

    /// Does `operations` (a multiple of [`GRAIN`]) on the calling thread.
    fn run(&self, thread: usize, operations: u64);

    /// Called once all threads are done: whether everything the `operations` of all threads did is accounted for.
    fn check(&self, operations: u64) -> Result<(), String>;
}

/// A subject and the name it is reported under.
pub struct Case {
    /// The case's name.
    pub name: &'static str,
    /// What is measured.
    pub subject: Box<dyn Subject>,
}

impl Case {
    /// A case of that name.
    pub fn new(name: &'static str, subject: impl Subject + 'static) -> Self {
        Self {
            name,
            subject: Box::new(subject),
        }
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// About how long one run of one case takes: far longer than reading the clock, and shorter than a scheduler's turn,
    /// so that on a busy machine most runs are still whole.
    pub run: Duration,
    /// How many rounds are wanted.
    pub rounds: usize,
    /// How many rounds are run first and thrown away.
    pub warm_up: usize,
    /// When to stop before all rounds are done (but never before [`Effort::FEWEST`]).
    pub budget: Duration,
    /// How many times a crowd of threads is gathered, by experiments that need one.
    pub crowds: u32,
}

impl Effort {
    /// A statistic over fewer rounds would not deserve the name.
    pub const FEWEST: usize = 3;

    /// Enough to see what is worth what.
    pub const QUICK: Self = Self {
        run: Duration::from_millis(1),
        rounds: 101,
        warm_up: 3,
        budget: Duration::from_millis(2_500),
        crowds: 5,
    };

    /// Enough to quote.
    pub const FULL: Self = Self {
        run: Duration::from_millis(2),
        rounds: 501,
        warm_up: 10,
        budget: Duration::from_secs(20),
        crowds: 25,
    };

    /// How long a run is when each CPU has `crowding` threads. Threads that share a CPU must each get several turns; but
    /// the budget must hold enough rounds.
    fn run_of(&self, crowding: usize) -> Duration {
        /// About what a scheduler lets a thread run for at a time.
        const TURN: Duration = Duration::from_millis(4);
        match crowding {
            0 | 1 => self.run,
            threads => TURN * u32::try_from(threads.min(8)).unwrap_or(8),
        }
    }
}

/// Measures `cases` with `threads` threads on `cpus`; a series a case, in the order of the cases.
pub fn measure(
    experiment: &'static str,
    cases: &[Case],
    threads: usize,
    cpus: &[usize],
    effort: Effort,
    advance: &dyn Fn(f64),
) -> Result<Vec<Series>, Error> {
    let wrong = |case: usize, fault| Error::Wrong {
        experiment,
        case: cases[case].name,
        threads,
        fault,
    };
    let crew = Crew::new(cases, cpus);
    let (values, operations) = thread::scope(|scope| {
        // Whatever ends this closure, threads that wait for work must hear that there is none.
        let _dismissal = crew.dismissal();
        crew.hire(scope, threads)?;
        let mut measuring = Measuring {
            crew: &crew,
            operations: vec![0; cases.len()],
        };
        let values = measuring
            .all(effort, advance)
            .map_err(|(case, fault)| wrong(case, fault))?;
        Ok::<_, Error>((values, measuring.operations))
    })?;
    for (index, case) in cases.iter().enumerate() {
        case.subject
            .check(operations[index] * threads as u64)
            .map_err(|fault| wrong(index, fault))?;
    }
    let series = cases.iter().zip(values);
    Ok(series
        .map(|(case, values)| Series {
            case: case.name,
            unit: "ns/op",
            values,
        })
        .collect())
}

/// A case's index and what went wrong in it.
pub type Fault = (usize, String);

/// The measuring of one experiment at one number of threads.
struct Measuring<'a> {
    crew: &'a Crew<'a>,
    /// The operations each thread has done so far, by case.
    operations: Vec<u64>,
}

impl Measuring<'_> {
    /// Calibrates, warms up and runs the rounds; the values by case.
    fn all(&mut self, effort: Effort, advance: &dyn Fn(f64)) -> Result<Vec<Vec<f64>>, Fault> {
        self.crew.prepare()?;
        let cases = self.operations.len();
        let run = effort.run_of(self.crew.crowding());
        let mut batches = (0..cases)
            .map(|case| self.calibrate(case, run))
            .collect::<Result<Vec<_>, _>>()?;
        let mut values = vec![Vec::with_capacity(effort.rounds); cases];
        let mut order: Vec<usize> = (0..cases).collect();
        // A fixed seed: two benchmarks of one machine differ by the machine only.
        let mut random = fastrand::Rng::with_seed(1);
        let started = Instant::now();
        for round in 0..effort.warm_up + effort.rounds {
            random.shuffle(&mut order);
            for &case in &order {
                let took = self.run(case, batches[case])?;
                if round >= effort.warm_up {
                    values[case].push(took.as_nanos() as f64 / batches[case] as f64);
                }
                batches[case] = refitted(batches[case], took, run);
            }
            let spent = started.elapsed();
            let by_rounds = (round + 1) as f64 / (effort.warm_up + effort.rounds) as f64;
            advance(
                by_rounds
                    .max(spent.as_secs_f64() / effort.budget.as_secs_f64())
                    .min(1.0),
            );
            if spent >= effort.budget && round + 1 >= effort.warm_up + Effort::FEWEST {
                break;
            }
        }
        Ok(values)
    }

    /// How many operations a thread must do for a run of the case to take about `run`.
    fn calibrate(&mut self, case: usize, run: Duration) -> Result<u64, Fault> {
        /// How often a size is tried that seems to take long enough.
        const ATTEMPTS: u32 = 5;
        let batch = calibrated(run, ATTEMPTS, |batch| self.run(case, batch))?;
        batch.ok_or_else(|| {
            let fault = "its operations take no time at all: the compiler removed them";
            (case, fault.to_string())
        })
    }

    fn run(&mut self, case: usize, operations: u64) -> Result<Duration, Fault> {
        self.operations[case] += operations;
        self.crew.run(case, operations)
    }
}

/// Returns how many operations take about `run`, given what runs of so many take; `None` if they take
/// no time.
///
/// A thread may wait through the turns of others that share its CPU, however few its operations are.
/// Such a run says nothing about operations, and a batch fitted to it would measure turns. So a size
/// that seems to take long enough is tried up to `attempts` times, and the fastest run counts.
fn calibrated<E>(
    run: Duration,
    attempts: u32,
    mut run_of: impl FnMut(u64) -> Result<Duration, E>,
) -> Result<Option<u64>, E> {
    /// More than any machine does in a run: whatever gets here was optimised away.
    const LIMIT: u64 = 1 << 36;
    let mut batch = GRAIN;
    while batch < LIMIT {
        let mut took = run_of(batch)?;
        for _ in 1..attempts {
            if took < run {
                break;
            }
            took = took.min(run_of(batch)?);
        }
        let factor = run.as_secs_f64() / took.as_secs_f64().max(1e-9);
        if factor <= 1.0 {
            return Ok(Some(batch));
        }
        if factor <= 4.0 {
            return Ok(Some(grains(batch as f64 * factor)));
        }
        // A short run says little about a long one: go there by steps.
        batch = grains(batch as f64 * (factor / 2.0).min(16.0));
    }
    Ok(None)
}

/// The next batch of a case, whose last run took so long where `run` was meant. Operations that were fast while
/// one thread did them after the other may be slower a hundred times from then on, as of a lock that threads get in turn;
/// with the same batch, a round of them would take minutes.
fn refitted(batch: u64, took: Duration, run: Duration) -> u64 {
    const FAR: f64 = 4.0;
    let excess = took.as_secs_f64() / run.as_secs_f64();
    match excess > FAR {
        true => grains((batch as f64 / excess).max(1.0)),
        false => batch,
    }
}

/// Rounds up to whole grains.
fn grains(operations: f64) -> u64 {
    (operations as u64).div_ceil(GRAIN) * GRAIN
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const EFFORT: Effort = Effort {
        run: Duration::from_micros(200),
        rounds: 7,
        warm_up: 1,
        budget: Duration::from_secs(5),
        crowds: 1,
    };

    #[derive(Default)]
    struct Shared {
        prepared: AtomicU64,
        done: AtomicU64,
        lose: u64,
        panic: bool,
    }

    impl Subject for Shared {
        fn prepare(&self, _thread: usize) {
            self.prepared.fetch_add(1, Ordering::Relaxed);
        }

        fn run(&self, _thread: usize, operations: u64) {
            assert!(!self.panic, "out of luck");
            assert_eq!(operations % GRAIN, 0);
            for _ in 0..operations {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn check(&self, operations: u64) -> Result<(), String> {
            assert_eq!(self.prepared.load(Ordering::Relaxed), 3);
            let done = self.done.load(Ordering::Relaxed) - self.lose;
            (done == operations)
                .then_some(())
                .ok_or_else(|| format!("{done} of {operations}"))
        }
    }

    #[test]
    fn every_case_gets_a_value_a_round() {
        let cases = [
            Case::new("one", Shared::default()),
            Case::new("two", Shared::default()),
        ];
        let series = measure("test", &cases, 3, &[0], EFFORT, &|_| ()).unwrap();
        assert_eq!(series.len(), 2);
        for (series, case) in series.iter().zip(&cases) {
            assert_eq!((series.case, series.unit), (case.name, "ns/op"));
            assert_eq!(series.values.len(), 7);
            assert!(series.values.iter().all(|&ns| ns > 0.0));
        }
    }

    /// A model of a run: 100 ns an operation, and in two runs of three, 20 ms of other threads' turns.
    fn turns(runs: &mut u32, batch: u64) -> Duration {
        *runs += 1;
        let turns = if runs.is_multiple_of(3) { 0 } else { 20 };
        Duration::from_nanos(100 * batch) + Duration::from_millis(turns)
    }

    #[test]
    fn turns_of_other_threads_are_not_taken_for_operations() {
        let run = Duration::from_millis(8);
        let batch = |attempts| {
            let mut runs = 0;
            calibrated(run, attempts, |batch| Ok::<_, ()>(turns(&mut runs, batch)))
        };
        let fitted = batch(5).unwrap().unwrap();
        assert!((60_000..=100_000).contains(&fitted), "{fitted}");
        // The control: by one run of each size, a turn is taken for them.
        assert_eq!(batch(1), Ok(Some(GRAIN)));
    }

    #[test]
    fn batches_of_operations_that_became_slow_get_smaller() {
        let run = Duration::from_millis(1);
        assert_eq!(refitted(6_400, 4 * run, run), 6_400, "it may be chance");
        assert_eq!(refitted(6_400, 100 * run, run), GRAIN);
        assert_eq!(refitted(64_000, 100 * run, run), 640);
        assert_eq!(refitted(GRAIN, 100 * run, run), GRAIN, "never none");
    }

    #[test]
    fn what_takes_no_time_has_no_batch() {
        assert_eq!(
            calibrated(Duration::from_millis(1), 1, |_| Ok::<_, ()>(Duration::ZERO)),
            Ok(None)
        );
        assert_eq!(calibrated(Duration::from_millis(1), 2, |_| Err(3)), Err(3));
    }

    #[test]
    fn a_lost_operation_is_an_error() {
        let cases = [
            Case::new("good", Shared::default()),
            Case::new(
                "bad",
                Shared {
                    lose: 1,
                    ..Default::default()
                },
            ),
        ];
        let error = measure("test", &cases, 3, &[0], EFFORT, &|_| ()).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Wrong {
                    case: "bad",
                    threads: 3,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_panic_in_a_subject_is_an_error_not_a_hang() {
        let cases = [
            Case::new("good", Shared::default()),
            Case::new(
                "bad",
                Shared {
                    panic: true,
                    ..Default::default()
                },
            ),
        ];
        let error = measure("test", &cases, 3, &[0], EFFORT, &|_| ()).unwrap_err();
        assert!(matches!(error, Error::Wrong { case: "bad", .. }), "{error}");
        assert!(error.to_string().contains("out of luck"), "{error}");
    }
}
