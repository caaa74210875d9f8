//! Times the two operations of each object apart: a chunk of insertions, then as many deletions.

use std::hint::black_box;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::{Attempts, CAPACITY, EXPERIMENT, Pair, ROWS};
use crate::bench::crew::measure_aside;
use crate::bench::engine::Effort;
use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;
use crate::bench::signals;
use crate::error::Error;

/// An object of any kind, and what its operations took.
pub trait Timed {
    /// Puts the numbers from 1 to [`CAPACITY`] into it, each by one operation.
    fn put_all(&self) -> Attempts;

    /// Takes as many out; their sum, and the attempts.
    fn take_all(&self) -> (u64, Attempts);
}

/// An object that nothing else shares a cache line with.
pub struct Measured<P>(CachePadded<P>);

impl<P: Pair> Measured<P> {
    /// A new one.
    pub fn boxed() -> Box<dyn Timed> {
        Box::new(Self(CachePadded::default()))
    }
}

impl<P: Pair> Timed for Measured<P> {
    #[inline(never)]
    fn put_all(&self) -> Attempts {
        let object: &P = black_box(&self.0);
        let mut all = Attempts(0);
        for value in 1..=CAPACITY {
            all.0 += object.put(value).0;
        }
        all
    }

    #[inline(never)]
    fn take_all(&self) -> (u64, Attempts) {
        let object: &P = black_box(&self.0);
        let (mut sum, mut all) = (0, Attempts(0));
        for _ in 0..CAPACITY {
            let (value, attempts) = object.take();
            sum += value;
            all.0 += attempts.0;
        }
        (sum, all)
    }
}

/// What the numbers that are put in are together.
const SUM: u64 = CAPACITY * (CAPACITY + 1) / 2;

/// A row's object, and what it has done.
struct Running {
    row: usize,
    object: Box<dyn Timed>,
    chunks: u64,
    attempts: u64,
    /// Why it is no longer run.
    fault: Option<Fault>,
    /// How long one chunk of each operation took this round, less what reading the clock takes.
    took: [Duration; 2],
}

impl Running {
    fn new(row: usize) -> Self {
        Self {
            row,
            object: (ROWS[row].make)(),
            chunks: 0,
            attempts: 0,
            fault: None,
            took: [Duration::ZERO; 2],
        }
    }

    /// Runs chunks for about so long; the time of each operation in nanoseconds.
    fn run(&mut self, about: Duration, clock: Duration) -> Result<[f64; 2], Fault> {
        self.took = [Duration::ZERO; 2];
        let (before, started) = (self.chunks, Instant::now());
        while self.chunks == before || started.elapsed() < about {
            let start = Instant::now();
            let put = self.object.put_all();
            let between = Instant::now();
            let (sum, taken) = self.object.take_all();
            let end = Instant::now();
            if sum != SUM {
                let sentence = format!("what was put in made {SUM}, what came out {sum}");
                return Err(Fault::count(SUM, [sum], sentence));
            }
            self.took[0] += (between - start).saturating_sub(clock);
            self.took[1] += (end - between).saturating_sub(clock);
            self.attempts += put.0 + taken.0;
            self.chunks += 1;
        }
        let operations = ((self.chunks - before) * CAPACITY) as f64;
        Ok(self.took.map(|took| took.as_nanos() as f64 / operations))
    }

    /// Whether each operation took as many attempts as it was to. An interruption may have cost one
    /// more now and then.
    fn check(&self) -> Result<(), Fault> {
        let expected = 2 * self.chunks * CAPACITY * ROWS[self.row].attempts;
        match (expected..=expected + expected / 100 + 4).contains(&self.attempts) {
            true => Ok(()),
            false => {
                let attempts = self.attempts;
                let sentence =
                    format!("there were {attempts} attempts where {expected} were to be");
                Err(Fault::count(expected, [attempts], sentence))
            }
        }
    }
}

/// What reading the clock takes.
fn clock() -> Duration {
    let once = || {
        let start = Instant::now();
        start.elapsed()
    };
    (0..1_000).map(|_| once()).min().unwrap_or_default()
}

/// Measures all rows.
pub fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    signals::prove_that_it_waits_for(atomseq::signal::mask)?;
    measure_aside(advance, |shares| measure(effort, shares))
}

/// The rounds, on this thread.
fn measure(effort: Effort, shares: &Sender<f64>) -> Result<Results, Error> {
    let mut running: Vec<_> = (0..ROWS.len()).map(Running::new).collect();
    let mut values = vec![[Vec::new(), Vec::new()]; ROWS.len()];
    // A fixed seed: two benchmarks of one machine differ by the machine only.
    let mut random = fastrand::Rng::with_seed(1);
    // An operation's share of what a case of other experiments has for a run.
    let about = effort.run / 4;
    let (clock, started) = (clock(), Instant::now());
    let rounds = effort.warm_up + effort.rounds;
    for round in 0..rounds {
        random.shuffle(&mut running);
        for running in running.iter_mut().filter(|row| row.fault.is_none()) {
            let took = match running.run(about, clock) {
                Ok(took) => took,
                Err(fault) => {
                    running.fault = Some(fault);
                    continue;
                }
            };
            if round >= effort.warm_up {
                values[running.row][0].push(took[0]);
                values[running.row][1].push(took[1]);
            }
        }
        let spent = started.elapsed().as_secs_f64() / effort.budget.as_secs_f64();
        // The receiver may be gone, which is no reason to stop.
        let _ = shares.send(spent.max((round + 1) as f64 / rounds as f64).min(1.0));
        if spent >= 1.0 && round + 1 >= effort.warm_up + Effort::MIN_ROUNDS {
            break;
        }
    }
    running.sort_by_key(|running| running.row);
    let mut series: Vec<_> = ROWS
        .iter()
        .zip(values)
        .zip(running)
        .flat_map(|((row, [put, take]), running)| {
            let check = || running.check().err();
            let fault = running.fault.clone().or_else(check);
            let taken = row.take.map(|case| (case, take, fault.clone()));
            [Some((row.put, put, fault)), taken]
        })
        .flatten()
        .map(|(case, values, fault)| {
            let unit = "ns/op";
            (Series { case, unit, values }, fault)
        })
        .collect();
    let place = |case| EXPERIMENT.cases.iter().position(|entry| entry.name == case);
    series.sort_by_key(|(series, _)| place(series.case));
    let mut measured = Results::default();
    for (series, fault) in series {
        measured.add(series, fault);
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::experiments::s92_table51::{Row, plain};

    #[test]
    fn every_object_gives_back_what_it_was_given_in_as_many_attempts() {
        for (row, Row { put, .. }) in ROWS.iter().enumerate() {
            let mut running = Running::new(row);
            for _ in 0..2 {
                let took = running.run(Duration::ZERO, Duration::ZERO);
                assert!(took.is_ok(), "{put}: {took:?}");
            }
            assert_eq!(running.check(), Ok(()), "{put}");
            assert_eq!(running.chunks, 2);
        }
    }

    #[test]
    fn every_case_is_listed_and_run_once() {
        let rows = ROWS.iter().flat_map(|row| [Some(row.put), row.take]);
        let mut run: Vec<_> = rows.flatten().collect();
        let mut listed: Vec<_> = EXPERIMENT.cases.iter().map(|entry| entry.name).collect();
        run.sort_unstable();
        listed.sort_unstable();
        assert_eq!(run, listed);
    }

    #[test]
    fn lists_and_stacks_give_back_the_last_first_and_queues_the_first() {
        fn order(object: impl Pair) -> [u64; 3] {
            for value in 1..=3 {
                assert_eq!(object.put(value), Attempts(1));
            }
            [0; 3].map(|_| object.take().0)
        }
        assert_eq!(order(plain::List::default()), [3, 2, 1]);
        assert_eq!(order(plain::Stack::default()), [3, 2, 1]);
        assert_eq!(order(plain::Queue::default()), [1, 2, 3]);
    }

    /// A stack whose pops claim another attempt, or lose a little of what was pushed.
    #[derive(Default)]
    struct Wrong<const LOSES: u64, const MORE: u64>(plain::Stack);

    impl<const LOSES: u64, const MORE: u64> Pair for Wrong<LOSES, MORE> {
        fn put(&self, value: u64) -> Attempts {
            self.0.put(value)
        }

        fn take(&self) -> (u64, Attempts) {
            let (value, attempts) = self.0.take();
            (value - LOSES, Attempts(attempts.0 + MORE))
        }
    }

    #[test]
    fn the_checks_tell_what_is_lost_and_what_was_tried_again() {
        let judge = |object: Box<dyn Timed>| {
            let mut running = Running::new(0);
            running.object = object;
            running.run(Duration::ZERO, Duration::ZERO)?;
            running.check()
        };
        assert_eq!(judge(Measured::<Wrong<0, 0>>::boxed()), Ok(()));
        let lost = judge(Measured::<Wrong<1, 0>>::boxed()).unwrap_err();
        assert_eq!(lost.sentence, "what was put in made 528, what came out 496");
        let again = judge(Measured::<Wrong<0, 1>>::boxed()).unwrap_err();
        assert_eq!(again.sentence, "there were 96 attempts where 64 were to be");
    }
}
