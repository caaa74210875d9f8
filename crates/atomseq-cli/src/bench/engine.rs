//! The measuring engine: every case of an experiment in one process, interleaved.
//!
//! A round runs each case once, in an order shuffled anew each round, so that a disturbance longer
//! than a run meets all cases alike and a ratio taken within a round stays true. Threads live as
//! long as the experiment, each pinned to one CPU (round robin when there are more threads than
//! CPUs). A run starts when all threads have met, and its time is the joint one: from the first
//! thread's start to the last one's end. One `ns/op` is that time divided by the operations of one
//! thread: what a thread waits for an operation while the others do theirs.

use std::thread;
use std::time::{Duration, Instant};

use super::crew::{Crew, Length};
use super::fault::{Fault, Results};
use super::record::Series;
use crate::error::{Error, Refused};

/// Runs are a multiple of this many operations, so that a subject may work in batches of any power
/// of two up to it.
pub const GRAIN: u64 = 64;

/// A subject of measurement.
pub trait Subject: Sync {
    /// Called once by every thread, on its CPU, before the first run.
    ///
    /// # Errors
    ///
    /// What the system refused, so that nothing can be measured. If it is only missing (`ENOENT`),
    /// the other cases are measured.
    fn prepare(&self, _thread: usize) -> Result<(), Refused> {
        Ok(())
    }

    /// Whether each thread's operations complete however many the other threads do. A run may then
    /// call [`Subject::run`] several times, and end early, with more operations of one thread than
    /// of another.
    fn may_end_early(&self) -> bool {
        false
    }

    /// Does `operations` (a multiple of [`GRAIN`]) on the calling thread.
    fn run(&self, thread: usize, operations: u64);

    /// Called once all threads are done. Checks that everything that the `operations` of all
    /// threads did is accounted for.
    fn check(&self, operations: u64) -> Result<(), Fault>;
}

/// A completed run.
#[derive(Clone, Copy)]
pub struct Run {
    /// The operations of all threads.
    pub operations: u64,
    /// How many threads there are.
    pub threads: u64,
    /// From the first thread's start to the last one's end.
    pub took: Duration,
}

impl Run {
    /// The time of that many operations of each thread: that of the run, unless it was ended early.
    fn of(self, operations: u64) -> Duration {
        let share = (operations * self.threads) as f64 / self.operations as f64;
        self.took.mul_f64(share)
    }
}

/// A subject and the name it is reported under.
pub struct Case {
    /// The case's name.
    pub name: &'static str,
    /// What is measured.
    pub subject: Box<dyn Subject>,
}

#[cfg(test)]
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
    /// About how long one run of one case takes: far longer than reading the clock, and shorter
    /// than a scheduler's time slice, so that on a busy machine most runs are not interrupted.
    pub run: Duration,
    /// How many rounds are wanted.
    pub rounds: usize,
    /// How many rounds are run first and discarded.
    pub warm_up: usize,
    /// When to stop before all rounds are done (but never before [`Effort::MIN_ROUNDS`]).
    pub budget: Duration,
    /// How many times a crowd of threads is gathered, by experiments that need one.
    pub crowds: u32,
}

impl Effort {
    /// Fewer rounds decide nothing: a disturbed one would be a large share of them.
    pub const MIN_ROUNDS: usize = 5;

    /// Enough for a first impression. Unoptimized builds have no figures worth having: their runs
    /// only show that each case works.
    pub const QUICK: Self = Self {
        run: Duration::from_millis(1),
        rounds: 101,
        warm_up: 3,
        budget: Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 2_500 }),
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

    /// How long a run is when each CPU has `crowding` threads. Threads that share a CPU must each
    /// get several time slices, but the budget must hold enough rounds.
    fn run_of(&self, crowding: usize) -> Duration {
        /// About a scheduler's time slice.
        const TURN: Duration = Duration::from_millis(4);
        match crowding {
            0 | 1 => self.run,
            threads => TURN * u32::try_from(threads.min(8)).unwrap_or(8),
        }
    }
}

/// Measures `cases` with `threads` threads on `cpus`, in the order of the cases. A case that
/// panics, or whose operations are not accounted for in the end, has no values, and the others go
/// on without it.
///
/// # Errors
///
/// [`Error::Thread`] if the system refuses a thread, [`Error::Refused`] if it refuses what a case
/// needs.
pub fn measure(
    cases: &[Case],
    threads: usize,
    cpus: &[usize],
    effort: Effort,
    advance: &dyn Fn(f64),
) -> Result<Results, Error> {
    let crew = Crew::new(cases, cpus);
    let taken = thread::scope(|scope| {
        // However this closure ends, the threads that wait for work must be dismissed.
        let _dismissal = crew.dismissal();
        crew.hire(scope, threads)?;
        let mut measuring = Measuring {
            crew: &crew,
            taken: cases.iter().map(|_| Taken::default()).collect(),
        };
        measuring.all(effort, advance)?;
        Ok::<_, Error>(measuring.taken)
    })?;
    let mut measured = Results::default();
    for (case, taken) in cases.iter().zip(taken) {
        let check = || case.subject.check(taken.operations).err();
        let series = Series {
            case: case.name,
            unit: "ns/op",
            values: taken.values,
        };
        measured.add(series, taken.fault.or_else(check));
    }
    Ok(measured)
}

/// The state of a case.
#[derive(Default)]
struct Taken {
    /// The operations of all threads.
    operations: u64,
    /// A value a round.
    values: Vec<f64>,
    /// Why it is no longer run.
    fault: Option<Fault>,
}

/// The measuring of one experiment at one number of threads.
struct Measuring<'a> {
    crew: &'a Crew<'a>,
    /// By case.
    taken: Vec<Taken>,
}

impl Measuring<'_> {
    /// Calibrates, warms up and runs the rounds.
    fn all(&mut self, effort: Effort, advance: &dyn Fn(f64)) -> Result<(), Refused> {
        for (case, fault) in self.crew.prepare()? {
            self.taken[case].fault = Some(fault);
        }
        let run = effort.run_of(self.crew.crowding());
        let pace = Pace {
            run,
            overlong: (effort.budget / 16).max(16 * run),
        };
        // Each case that is still run, and its batch.
        let mut batches = Vec::with_capacity(self.taken.len());
        for case in 0..self.taken.len() {
            self.taken[case].values.reserve(effort.rounds);
            batches.extend(self.calibrate(case, pace).map(|batch| (case, batch)));
        }
        // A fixed seed: two benchmarks of one machine differ by the machine only.
        let mut random = fastrand::Rng::with_seed(1);
        let started = Instant::now();
        for round in 0..effort.warm_up + effort.rounds {
            random.shuffle(&mut batches);
            batches.retain_mut(|(case, batch)| {
                let Ok(value) = batch.measure(|operations| self.run(*case, operations, pace))
                else {
                    return false;
                };
                if round >= effort.warm_up {
                    self.taken[*case].values.push(value);
                }
                true
            });
            let spent = started.elapsed();
            let by_rounds = (round + 1) as f64 / (effort.warm_up + effort.rounds) as f64;
            advance(
                by_rounds
                    .max(spent.as_secs_f64() / effort.budget.as_secs_f64())
                    .min(1.0),
            );
            if spent >= effort.budget && round + 1 >= effort.warm_up + Effort::MIN_ROUNDS {
                break;
            }
        }
        Ok(())
    }

    /// A batch of the case that takes about a run; `None` if the case has a fault.
    fn calibrate(&mut self, case: usize, pace: Pace) -> Option<Batch> {
        let run_of = |operations| self.run(case, operations, pace);
        let batch = Batch::calibrated(pace, Batch::LAST, run_of).ok()?;
        if batch.is_none() {
            let fault = "its operations take no time at all: the compiler removed them";
            self.taken[case].fault = Some(fault.into());
        }
        batch
    }

    /// Runs the case, unless it has a fault.
    fn run(&mut self, case: usize, operations: u64, pace: Pace) -> Result<Run, Faulty> {
        let taken = &mut self.taken[case];
        if taken.fault.is_some() {
            return Err(Faulty);
        }
        match self.crew.run(case, pace.length(operations)) {
            Ok(run) => {
                taken.operations += run.operations;
                Ok(run)
            }
            Err(fault) => {
                taken.fault = Some(fault);
                Err(Faulty)
            }
        }
    }
}

/// The case has a fault, which its state holds.
struct Faulty;

/// How many operations a thread does in a run of a case. It is adapted to the duration of the runs.
///
/// Operations that were fast while the threads did them one after the other may become a thousand
/// times slower, as those of a lock that threads acquire in turn. With the same batch, a round
/// would take minutes. But the time of a thread that was stopped, or waited for its CPU, is no
/// measure of its operations. So the fastest of the last runs determines how long an operation
/// takes, and a batch shrinks when all of them were far too long. A run that is far too short has
/// no value, since it consists mostly of the threads' skew: it is repeated in the same round, with
/// a larger batch.
///
/// A size whose last runs were all overlong is given up: the batch shrinks to a quarter of it, and
/// grows beyond that slowly. A run counts once for each time that it is overlong, since there is no
/// time for several that take long. Five overlong stops in a row take a third of the budget, so
/// that stops of the process seldom look like a size that is overlong.
///
/// A run that has become overlong is ended after the slices that threads are in, and what they have
/// done determines how long an operation takes. But where threads need each other's operations, a
/// run cannot be ended early, and nothing bounds the first one of a size that has become overlong.
struct Batch {
    operations: u64,
    /// How many operations there may be at most.
    limit: f64,
    /// The nanoseconds of an operation in each of the last runs, the latest first.
    last: [f64; Batch::LAST],
    pace: Pace,
}

/// How long runs should be.
#[derive(Clone, Copy)]
struct Pace {
    /// How long a run is to take.
    run: Duration,
    /// A run of this duration is overlong. There is time for only a few of them.
    overlong: Duration,
}

impl Pace {
    /// A run of that many operations. Between two slices a thread reads a word that is written only
    /// at the start and the end of a run, so that the read costs nothing.
    fn length(self, operations: u64) -> Length {
        const SLICE: Duration = Duration::from_micros(50);
        let slice = operations as f64 * SLICE.as_secs_f64() / self.run.as_secs_f64();
        Length {
            operations,
            slice: grains(slice).max(GRAIN),
            patience: self.overlong,
        }
    }

    /// How often a run of that duration counts.
    fn weight(self, took: Duration) -> usize {
        let weight = took.as_secs_f64() / self.overlong.as_secs_f64();
        (weight as usize).clamp(1, Batch::LAST)
    }
}

impl Batch {
    /// The fastest of this many runs determines the time of operations.
    const LAST: usize = 5;

    /// The factor beyond which a run is far too long or too short.
    const FAR: f64 = 4.0;

    /// How many times a batch grows at a time: a short run predicts little about a long one.
    const GROWTH: f64 = 16.0;

    /// How often a run that is too short is repeated. From one grain, that many steps lead to any
    /// batch.
    const ATTEMPTS: u32 = 8;

    /// How many times the limit grows with each run.
    const RELIEF: f64 = 1.03;

    /// A batch whose operations take about a run.
    fn new(operations: u64, pace: Pace) -> Self {
        Self {
            operations,
            limit: f64::INFINITY,
            last: [pace.run.as_nanos() as f64 / operations as f64; Self::LAST],
            pace,
        }
    }

    /// Returns a batch whose operations take about a run, given a function that runs that many;
    /// `None` if they take no time.
    ///
    /// A thread may wait for the time slices of others that share its CPU, however few its
    /// operations are. Such a run is no measure of operations, and a batch fitted to it would
    /// measure time slices. So a size that seems to take long enough is tried until that many runs
    /// count, and the fastest determines the time of operations.
    ///
    /// An overlong run counts once until a second run of its size confirms that it is overlong. The
    /// first may be one stop of the machine, of any length.
    fn calibrated<E>(
        pace: Pace,
        runs: usize,
        mut run_of: impl FnMut(u64) -> Result<Run, E>,
    ) -> Result<Option<Self>, E> {
        /// More than any machine does in a run: a case that gets here was optimised away.
        const LIMIT: u64 = 1 << 36;
        let mut operations = GRAIN;
        while operations < LIMIT {
            let (mut fastest, mut counted, mut was_overlong) = (Duration::MAX, 0, false);
            while counted < runs && fastest >= pace.run {
                let run = run_of(operations)?;
                fastest = fastest.min(run.of(operations));
                counted += if was_overlong {
                    pace.weight(run.took)
                } else {
                    1
                };
                was_overlong |= run.took >= pace.overlong;
            }
            if fastest >= pace.overlong {
                let mut batch = Self::new(operations, pace);
                batch.give_up();
                return Ok(Some(batch));
            }
            let factor = pace.run.as_secs_f64() / fastest.as_secs_f64().max(1e-9);
            if factor <= Self::FAR {
                let fitted = grains(operations as f64 * factor.max(1.0));
                return Ok(Some(Self::new(fitted, pace)));
            }
            // A short run predicts little about a long one: grow by steps.
            operations = grains(operations as f64 * (factor / 2.0).min(Self::GROWTH));
        }
        Ok(None)
    }

    /// Returns the nanoseconds of an operation, given a function that runs that many.
    fn measure<E>(&mut self, mut run_of: impl FnMut(u64) -> Result<Run, E>) -> Result<f64, E> {
        let mut run = run_of(self.operations)?;
        for _ in 1..Self::ATTEMPTS {
            let took = run.of(self.operations);
            let share = took.as_secs_f64() / self.pace.run.as_secs_f64();
            let factor = (1.0 / share).min(Self::GROWTH);
            let limit = self.limit as u64 / GRAIN * GRAIN;
            let grown = grains(self.operations as f64 * factor).min(limit);
            if share >= 1.0 / Self::FAR || grown <= self.operations {
                break;
            }
            self.operations = grown;
            run = run_of(grown)?;
        }
        Ok(self.fit(run))
    }

    /// The nanoseconds of an operation in this run; fits the batch to the last runs.
    fn fit(&mut self, run: Run) -> f64 {
        let each = run.operations as f64 / run.threads as f64;
        let value = run.took.as_nanos() as f64 / each;
        let weight = self.pace.weight(run.took);
        self.last.rotate_right(weight);
        self.last[..weight].fill(value);
        let fastest = self.last.into_iter().fold(f64::INFINITY, f64::min);
        let taken = fastest * self.operations as f64;
        let excess = taken / self.pace.run.as_nanos() as f64;
        if taken >= self.pace.overlong.as_nanos() as f64 {
            self.give_up();
        } else if excess > Self::FAR {
            self.operations = grains((self.operations as f64 / excess).max(1.0));
        }
        self.limit *= Self::RELIEF;
        value
    }

    /// Shrinks to a quarter: that many operations are overlong.
    fn give_up(&mut self) {
        self.operations = grains(self.operations as f64 / Self::FAR);
        self.limit = self.operations as f64;
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

    /// A run of that many operations that was not ended early.
    fn whole(operations: u64, took: Duration) -> Result<Run, ()> {
        Ok(Run {
            operations,
            threads: 1,
            took,
        })
    }

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
        unprepared: bool,
        /// The error number of what is refused; 0: nothing.
        refused: i32,
    }

    impl Subject for Shared {
        fn prepare(&self, _thread: usize) -> Result<(), Refused> {
            assert!(!self.unprepared, "not prepared");
            self.prepared.fetch_add(1, Ordering::Relaxed);
            match self.refused {
                0 => Ok(()),
                errno => Err(Refused {
                    what: "do anything",
                    errno,
                }),
            }
        }

        fn run(&self, _thread: usize, operations: u64) {
            assert!(!self.panic, "out of luck");
            assert_eq!(operations % GRAIN, 0);
            for _ in 0..operations {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
        }

        fn check(&self, operations: u64) -> Result<(), Fault> {
            assert_eq!(self.prepared.load(Ordering::Relaxed), 3);
            let done = self.done.load(Ordering::Relaxed) - self.lose;
            (done == operations)
                .then_some(())
                .ok_or_else(|| Fault::count(operations, [done], "some are missing"))
        }
    }

    #[test]
    fn where_the_budget_is_spent_the_fewest_rounds_are_run() {
        let effort = Effort {
            rounds: 2 * Effort::MIN_ROUNDS,
            budget: Duration::ZERO,
            ..EFFORT
        };
        let case = Case::new("one", Shared::default());
        let measured = measure(&[case], 3, &[0], effort, &|_| ()).unwrap();
        assert_eq!(measured.series[0].values.len(), Effort::MIN_ROUNDS);
        for effort in [Effort::QUICK, Effort::FULL] {
            assert!(
                effort.rounds >= Effort::MIN_ROUNDS && effort.crowds as usize >= Effort::MIN_ROUNDS
            );
        }
    }

    fn measured(cases: &[Case]) -> Results {
        measure(cases, 3, &[0], EFFORT, &|_| ()).unwrap()
    }

    /// Measures this case between two good ones, which must be measured all the same; its fault.
    fn fault_of(bad: Shared) -> Fault {
        let cases = [
            Case::new("first", Shared::default()),
            Case::new("bad", bad),
            Case::new("last", Shared::default()),
        ];
        let mut measured = measured(&cases);
        let good = measured.series.iter().map(|series| series.case);
        assert_eq!(good.collect::<Vec<_>>(), ["first", "last"]);
        assert!(measured.series.iter().all(|good| good.values.len() == 7));
        let (case, fault) = measured.faults.pop().unwrap();
        assert_eq!((case, measured.faults.len()), ("bad", 0));
        fault
    }

    #[test]
    fn every_case_gets_a_value_a_round() {
        let cases = [
            Case::new("one", Shared::default()),
            Case::new("two", Shared::default()),
        ];
        let series = measured(&cases).series;
        assert_eq!(series.len(), 2);
        for (series, case) in series.iter().zip(&cases) {
            assert_eq!((series.case, series.unit), (case.name, "ns/op"));
            assert_eq!(series.values.len(), 7);
            assert!(series.values.iter().all(|&ns| ns > 0.0));
        }
    }

    /// A model of a run: 100 ns an operation, and in two runs of three, 20 ms of other threads'
    /// turns.
    fn turns(runs: &mut u32, batch: u64) -> Duration {
        *runs += 1;
        let turns = if runs.is_multiple_of(3) { 0 } else { 20 };
        Duration::from_nanos(100 * batch) + Duration::from_millis(turns)
    }

    #[test]
    fn turns_of_other_threads_are_not_taken_for_operations() {
        let fitted = |runs| {
            let mut made = 0;
            let run_of = |operations| whole(operations, turns(&mut made, operations));
            let pace = Pace {
                run: Duration::from_millis(8),
                overlong: Duration::from_millis(128),
            };
            let batch = Batch::calibrated(pace, runs, run_of);
            batch.unwrap().unwrap().operations
        };
        let operations = fitted(Batch::LAST);
        assert!((60_000..=100_000).contains(&operations), "{operations}");
        // The control: by one run of each size, a turn is taken for them.
        assert_eq!(fitted(1), GRAIN);
    }

    const RUN: Duration = Duration::from_millis(1);

    /// Runs of that length, one of which is overlong by a factor.
    fn pace(overlong: u32) -> Pace {
        Pace {
            run: RUN,
            overlong: overlong * RUN,
        }
    }

    /// Measures a batch of 10,000 operations, which take a run, in these rounds; the batches and
    /// the values after each. A round is what an operation takes in it, in nanoseconds, and what a
    /// run takes beside its operations.
    fn rounds(rounds: impl IntoIterator<Item = (u64, Duration)>) -> Vec<(u64, f64)> {
        let mut batch = Batch::new(10_048, pace(156));
        let measured = rounds.into_iter().map(|(nanoseconds, beside)| {
            let mut beside = Some(beside);
            let run_of = |operations| {
                let took = Duration::from_nanos(nanoseconds * operations);
                // What disturbs it once is over when it is run again.
                whole(operations, took + beside.take().unwrap_or(SKEW))
            };
            let value = batch.measure(run_of).unwrap();
            (batch.operations, value)
        });
        measured.collect()
    }

    /// What a run takes beside its operations on an idle machine.
    const SKEW: Duration = Duration::from_micros(5);

    #[test]
    fn batches_of_operations_that_became_slow_get_smaller() {
        let slow = |nanoseconds, times| vec![(nanoseconds, SKEW); times];
        let batches = |of: Vec<_>| rounds(of).into_iter().map(|(batch, _)| batch);
        assert!(batches(slow(390, 50)).all(|batch| batch == 10_048));
        // Fifty times: each of the last runs was slow.
        let slower: Vec<_> = batches(slow(5_000, 50)).collect();
        assert!(
            slower[..4].iter().all(|&batch| batch == 10_048),
            "may be chance"
        );
        assert!(slower[4..].iter().all(|&batch| batch == 256), "{slower:?}");
        // A thousand times: there is no time for more.
        let far_slower: Vec<_> = batches(slow(100_000, 50)).collect();
        assert_eq!(far_slower[0], 2_560);
        assert!(far_slower[4..].iter().all(|&batch| batch == GRAIN));
        assert!(
            batches(slow(100_000_000, 50))
                .skip(4)
                .all(|batch| batch == GRAIN),
            "never none"
        );
    }

    #[test]
    fn stops_of_the_process_do_not_make_runs_short() {
        let calm = [(100, SKEW); 20];
        let stop = |milliseconds| (100, Duration::from_millis(milliseconds));
        let leave = |stops: &[_], least| {
            let measured = rounds([&calm[..3], stops, &calm].concat());
            let (batch, _) = measured[measured.len() - 1];
            assert!((least..=20_000).contains(&batch), "{batch}");
            for (batch, value) in &measured[measured.len() - calm.len()..] {
                assert!(
                    (100.0..103.0).contains(value),
                    "{batch} operations, {value} ns"
                );
            }
        };
        leave(&[stop(200); 4], 10_048);
        leave(
            &[&[stop(200); 2][..], &calm[..3], &[stop(200); 3]].concat(),
            10_048,
        );
        // All of a benchmark's time, at once or not.
        leave(&[stop(200); 9], 2_512);
        leave(&[stop(60_000)], 2_512);
    }

    /// Thirty rounds, in two of three of which a thread waits for its CPU.
    #[test]
    fn turns_of_others_do_not_make_runs_short() {
        let turns = |round| Duration::from_millis(if round % 3 == 0 { 0 } else { 20 });
        let measured = rounds((0..30).map(|round| (100, turns(round))));
        assert!(
            measured.iter().all(|(batch, _)| *batch == 10_048),
            "{measured:?}"
        );
    }

    /// A lock that threads get in turn, once a run is long enough for them to meet: 30 ns an
    /// operation in a run that takes less than `meeting`, and 1 ms in others.
    fn lock(operations: u64, meeting: Duration) -> Duration {
        let alone = Duration::from_nanos(30 * operations);
        if alone < meeting {
            alone
        } else {
            Duration::from_millis(operations)
        }
    }

    /// The total time of a batch's overlong runs in that many rounds.
    fn overlong_runs(
        batch: &mut Batch,
        rounds: u32,
        run_of: impl Fn(u64) -> Duration,
    ) -> Vec<Duration> {
        let (overlong, mut overlong_runs) = (batch.pace.overlong, Vec::new());
        for _ in 0..rounds {
            let run_of = |operations| {
                let took = run_of(operations);
                overlong_runs.extend((took >= overlong).then_some(took));
                whole(operations, took)
            };
            batch.measure(run_of).unwrap();
        }
        overlong_runs
    }

    #[test]
    fn a_batch_does_not_grow_into_a_size_that_was_overlong() {
        let meet = |operations| lock(operations, Duration::from_micros(300));
        // Also one that was calm before.
        for alone in [0, 20] {
            let mut batch = Batch::new(33_280, pace(16));
            let before = overlong_runs(&mut batch, alone, |n| Duration::from_nanos(30 * n));
            assert_eq!(before, []);
            // A quarter of a run is long enough.
            assert_eq!(overlong_runs(&mut batch, 1_000, meet).len(), 1);
        }
    }

    /// The sizes that are not overlong are too short.
    #[test]
    fn a_batch_grows_slowly_towards_a_size_that_was_overlong() {
        for meeting in [3, 10, 30, 100, 200].map(Duration::from_micros) {
            let mut batch = Batch::new(33_280, pace(16));
            let meet = |operations| lock(operations, meeting);
            // The fewest rounds there are: the first overlong run is most of what is lost.
            let first = overlong_runs(&mut batch, 15, meet);
            let lost = first.iter().sum::<Duration>();
            assert!(2 * lost < 3 * first[0], "{meeting:?}: {first:?}");
            let later = overlong_runs(&mut batch, 1_000, meet);
            assert!(later.len() < 50, "{meeting:?}: {}", later.len());
        }
    }

    #[test]
    fn calibration_ends_at_a_second_run_that_takes_minutes() {
        for meeting in [3, 10, 30, 100, 300].map(Duration::from_micros) {
            let meet = |operations| lock(operations, meeting);
            let mut overlong_runs_made = Vec::new();
            let run_of = |operations| {
                let took = meet(operations);
                overlong_runs_made.extend((took >= 16 * RUN).then_some(took));
                whole(operations, took)
            };
            let batch = Batch::calibrated(pace(16), Batch::LAST, run_of);
            let mut batch = batch.unwrap().unwrap();
            let [first, _] = overlong_runs_made[..] else {
                panic!("{meeting:?}: {overlong_runs_made:?}");
            };
            let lost = overlong_runs(&mut batch, 15, meet).iter().sum::<Duration>();
            assert!(2 * lost < first, "{meeting:?}: {lost:?} after {first:?}");
        }
    }

    /// One run of a calibration is stopped, be it the first or the last, and however long.
    #[test]
    fn a_stop_does_not_end_calibration() {
        let runs = |stop| (1..=8).map(move |stopped| (stop * RUN, stopped));
        for (stop, stopped) in [200, 800, 60_000].into_iter().flat_map(runs) {
            let mut made = 0;
            let run_of = |operations| {
                made += 1;
                let stop = if made == stopped { stop } else { SKEW };
                whole(operations, Duration::from_nanos(100 * operations) + stop)
            };
            let batch = Batch::calibrated(pace(156), Batch::LAST, run_of);
            let operations = batch.unwrap().unwrap().operations;
            assert!((8_000..=12_000).contains(&operations), "{operations}");
        }
    }

    /// Runs, a percentage of which is stopped for 200 ms, by chance: the median, and the share of
    /// the values that are about right.
    fn stalled(hundredths: u32) -> (f64, f64) {
        let mut random = fastrand::Rng::with_seed(1);
        let mut batch = Batch::new(10_048, pace(156));
        let mut run_of = |operations| {
            let is_stopped = random.u32(..100) < hundredths;
            let stop = Duration::from_millis(if is_stopped { 200 } else { 0 });
            whole(
                operations,
                Duration::from_nanos(100 * operations) + SKEW + stop,
            )
        };
        let values = (0..3_001).map(|_| batch.measure(&mut run_of).unwrap());
        let mut values: Vec<_> = values.collect();
        values.sort_by(f64::total_cmp);
        let right = values.iter().filter(|&&value| value < 200.0).count();
        (values[1_500], right as f64 / 3_001.0)
    }

    #[test]
    fn a_third_of_stopped_runs_does_not_move_the_median() {
        for hundredths in [0, 5, 10, 20, 30, 35] {
            let (median, right) = stalled(hundredths);
            let message = format!("{hundredths} %: {median} ns, {right}");
            assert!((100.0..150.0).contains(&median), "{message}");
            // A value a round: those of stopped runs remain, and hardly more.
            let stopped = f64::from(hundredths) / 100.0;
            assert!(right > 0.91 - 1.05 * stopped, "{message}");
            assert!(right <= 1.0 - 0.8 * stopped, "{message}");
        }
    }

    #[test]
    fn what_takes_no_time_has_no_batch() {
        let batch = Batch::calibrated(pace(16), 1, |n| whole(n, Duration::ZERO));
        assert!(batch.unwrap().is_none());
        let batch = Batch::calibrated(pace(16), 2, |_| Err(3));
        assert_eq!(batch.err(), Some(3));
    }

    #[test]
    fn a_lost_operation_costs_a_case_its_figures_and_no_other() {
        let fault = fault_of(Shared {
            lose: 1,
            ..Default::default()
        });
        let expected = fault.expected.unwrap();
        assert_eq!(fault.found, [expected - 1]);
    }

    #[test]
    fn a_panic_costs_a_case_its_figures_and_no_other() {
        let fault = fault_of(Shared {
            panic: true,
            ..Default::default()
        });
        assert_eq!(fault, "it panicked: out of luck".into());
        let fault = fault_of(Shared {
            unprepared: true,
            ..Default::default()
        });
        assert_eq!(fault, "it panicked: not prepared".into());
    }

    #[test]
    fn what_the_system_refuses_is_no_fault_of_a_case() {
        let case = Case::new(
            "refused",
            Shared {
                refused: libc::EPERM,
                ..Default::default()
            },
        );
        let error = measure(&[case], 3, &[0], EFFORT, &|_| ()).unwrap_err();
        let message = error.to_string();
        assert!(
            message.starts_with("the system refused to do anything: "),
            "{message}"
        );
    }

    #[test]
    fn a_case_that_lacks_something_is_not_tried_and_the_others_are() {
        let lacks = Shared {
            refused: libc::ENOENT,
            ..Default::default()
        };
        let cases = [
            Case::new("lacks", lacks),
            Case::new("right", Shared::default()),
        ];
        let measured = measure(&cases, 3, &[0], EFFORT, &|_| ()).unwrap();
        let fault = Fault::untried("this machine cannot do anything");
        assert_eq!(measured.faults, [("lacks", fault)]);
        assert_eq!(measured.series.len(), 1);
    }
}
