//! `percpu-footprint`: what a count costs while 1,000 threads that have added to it are alive: the
//! bytes it holds, and the time to read it whole.
//!
//! Bytes are what was really asked for: every allocation of the construction and of each thread's
//! first addition, less what was freed, and, for what maps its memory itself, the growth of the
//! process's mappings. Thread-local storage that the program's image reserves in every thread is
//! not counted, to the thread-local count's advantage.

use std::hint::black_box;
use std::time::{Duration, Instant};

use atomseq::percpu::Counter;

use super::{Experiment, Method, Threads, cases};
use crate::bench::crowd::{self, Member};
use crate::bench::engine::Effort;
use crate::bench::fault::{Fault, Results};
use crate::bench::peers::counts::InterlockedPerCpu;
use crate::bench::peers::counts::Registered;
use crate::bench::record::Series;
use crate::bench::workloads::counting::Count;
use crate::error::Error;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-footprint",
    about: "a count that 1,000 living threads have added to: bytes held and time of a full read (always 1,000 threads)",
    cases: cases! {
        "bytes:rseq", "bytes held by a percpu::Counter";
        "bytes:thread-local", "bytes held by a padded word a thread in a registry";
        "bytes:interlocked-percpu", "bytes held by a padded word a CPU";
        "read:rseq", "time of percpu::Counter::sum";
        "read:thread-local", "time to lock the registry and read them all";
        "read:interlocked-percpu", "time to read them all";
    },
    peers: &["thread-local", "interlocked-percpu"],
    method: Method::Own {
        threads: THREADS,
        run,
    },
    threads: Threads::Spread,
    beside: None,
};

/// How many threads there are, whatever `--threads` says.
const THREADS: usize = 1_000;

/// How many times each count is read by itself while a crowd is alive, in turns.
const READS: usize = 10;

/// How long a series of reads takes that is timed as one.
const RUN: Duration = Duration::from_micros(500);

/// A way to count: its two case names, and how one is made.
struct Way {
    bytes: &'static str,
    read: &'static str,
    make: fn() -> Box<dyn Tally>,
}

const WAYS: [Way; 3] = [
    Way {
        bytes: "bytes:rseq",
        read: "read:rseq",
        make: || Box::new(Tallying(Counter::new())),
    },
    Way {
        bytes: "bytes:thread-local",
        read: "read:thread-local",
        make: || Box::new(Tallying(Registered::default())),
    },
    Way {
        bytes: "bytes:interlocked-percpu",
        read: "read:interlocked-percpu",
        make: || Box::new(Tallying(InterlockedPerCpu::new())),
    },
];

/// A count that can be read many times over.
trait Tally: Member {
    /// Reads the whole count `times` times; how long that took, and a count that was not
    /// `expected`.
    fn read(&self, times: u32, expected: u64) -> (Duration, Option<u64>);
}

struct Tallying<C>(C);

impl<C: Count> Member for Tallying<C> {
    fn join(&self) {
        self.0.add(1);
    }
}

impl<C: Count> Tally for Tallying<C> {
    fn read(&self, times: u32, expected: u64) -> (Duration, Option<u64>) {
        let mut wrong = None;
        let start = Instant::now();
        for _ in 0..times {
            let sum = black_box(&self.0).sum();
            if sum != expected {
                wrong = Some(sum);
            }
        }
        (start.elapsed(), wrong)
    }
}

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    let mut faults = WAYS.each_ref().map(|_| None);
    let mut bytes = vec![Vec::new(); WAYS.len()];
    let mut nanoseconds = vec![Vec::new(); WAYS.len()];
    let makers: Vec<_> = WAYS.iter().map(|way| way.make).collect();
    for crowd in 0..effort.crowds {
        crowd::gather(THREADS, &makers, |tallies, held| {
            for (way, tally) in tallies.iter().enumerate() {
                bytes[way].push(held[way] as f64);
                // Warm-up.
                faults[way] = faults[way].take().or(time_a_read(tally.as_ref()).err());
            }
            for _ in 0..READS {
                for (way, tally) in tallies.iter().enumerate() {
                    match time_a_read(tally.as_ref()) {
                        Ok(took) => nanoseconds[way].push(took),
                        Err(fault) => faults[way] = Some(fault),
                    }
                }
            }
            Ok(())
        })?;
        advance(f64::from(crowd + 1) / f64::from(effort.crowds));
    }
    let bytes = WAYS.iter().zip(bytes).map(|(way, values)| Series {
        case: way.bytes,
        unit: "bytes",
        values,
    });
    let reads = WAYS.iter().zip(nanoseconds).map(|(way, values)| Series {
        case: way.read,
        unit: "ns",
        values,
    });
    let mut measured = Results::default();
    // What does not count has neither.
    for (series, fault) in bytes.chain(reads).zip(faults.iter().chain(&faults)) {
        measured.add(series, fault.clone());
    }
    Ok(measured)
}

/// Nanoseconds of one full read, over as many reads as take about `RUN`.
fn time_a_read(tally: &dyn Tally) -> Result<f64, Fault> {
    let mut times = 16;
    loop {
        let (took, wrong) = tally.read(times, THREADS as u64);
        if let Some(sum) = wrong {
            let sentence = format!("it read {sum} when {THREADS} threads had added 1 each");
            return Err(Fault::count(THREADS as u64, [sum], sentence));
        }
        if took >= RUN / 2 {
            return Ok(took.as_nanos() as f64 / f64::from(times));
        }
        times *= 2;
    }
}
