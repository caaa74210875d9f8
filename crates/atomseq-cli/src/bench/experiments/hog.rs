//! `hog`: how long closures wait until they begin, while another one computes and never yields.
//!
//! All run on one CPU. Closures are spawned at random points of the hog's slice. The wait of a
//! closure is from the call of `spawn` to its first instruction. A figure is the median, the 99th
//! percentile or the maximum of a hundred waits. An executor that does not preempt has no figure:
//! its tasks wait for as long as the hog computes. The case counts those that begin in half a
//! second.
//!
//! The cost of preemption is the CPU time of the process for two computations that preempt each
//! other, beside that for both without preemption. A figure is the median of several runs, which
//! alternate. The time that other processes take is not in it.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use atomseq_threads::runtime::{self, Options, Runtime};

use super::{Experiment, Method, Threads, cases};
use crate::bench::engine::Effort;
use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;
use crate::error::Error;
use crate::machine;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "hog",
    about: "how long others wait to begin while one closure computes and never yields (always on one CPU)",
    cases: cases! {
        "p50:runtime", "runtime::Runtime with one worker, slices of 10 ms: the median wait";
        "p50:std", "threads of std on one CPU, preempted by the kernel alone";
        "p99:runtime", "runtime::Runtime: of a hundred waits the longest but one";
        "p99:std", "threads of std";
        "max:runtime", "runtime::Runtime: the longest of a hundred waits";
        "max:std", "threads of std";
        "p50:tokio", "tasks of the crate tokio on one worker, beside one that does not await";
        "p99:tokio", "tasks of tokio";
        "max:tokio", "tasks of tokio";
        "cost:alone", "the CPU time of two computations on one worker, one after the other";
        "cost:preempted", "the same, with slices of 10 ms: both run in turns";
    },
    peers: &["std", "tokio"],
    method: Method::Own { threads: 1, run },
    threads: Threads::Alone,
    beside: None,
};

/// The number of waits of a figure.
const WAITS: usize = 100;

/// The minimum number of a case's figures.
const FEWEST: usize = 5;

/// A way to run others beside a hog: its cases, and how it measures so many waits.
struct Way {
    cases: [&'static str; 3],
    measure: fn(usize) -> Result<Vec<Duration>, Fault>,
}

const WAYS: [Way; 3] = [
    Way {
        cases: ["p50:runtime", "p99:runtime", "max:runtime"],
        measure: with_runtime,
    },
    Way {
        cases: ["p50:std", "p99:std", "max:std"],
        measure: with_std,
    },
    Way {
        cases: ["p50:tokio", "p99:tokio", "max:tokio"],
        measure: with_tokio,
    },
];

/// How long the hog of an executor without preemption computes.
const BOUND: Duration = Duration::from_millis(500);

/// The cases of the computations, and their slices.
const COSTS: [(&str, Duration); 2] = [
    ("cost:alone", Duration::from_secs(3600)),
    ("cost:preempted", runtime::DEFAULT_SLICE),
];

/// The number of a computation's steps, which take about ten slices: the start of the second kernel
/// thread hardly counts then.
const STEPS: u64 = match cfg!(debug_assertions) {
    true => 10_000_000,
    false => 100_000_000,
};

/// The number of runs of which a cost is the median.
const RUNS: usize = 3;

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    let mut values = WAYS
        .each_ref()
        .map(|_| [Vec::new(), Vec::new(), Vec::new()]);
    let mut faults = WAYS.each_ref().map(|_| None);
    let mut costs = COSTS.map(|_| (Vec::new(), None));
    let start = Instant::now();
    let mut rounds = 0;
    while rounds < FEWEST || rounds < effort.rounds && start.elapsed() < effort.budget {
        for (way, (values, fault)) in WAYS.iter().zip(values.iter_mut().zip(&mut faults)) {
            // What has failed once has failed.
            if fault.is_some() {
                continue;
            }
            match (way.measure)(WAITS) {
                Ok(mut waits) => {
                    waits.sort_unstable();
                    let chosen = [WAITS / 2, WAITS - 2, WAITS - 1];
                    for (values, rank) in values.iter_mut().zip(chosen) {
                        values.push(waits[rank].as_nanos() as f64);
                    }
                }
                Err(found) => *fault = Some(found),
            }
        }
        let mut runs = COSTS.map(|_| Vec::new());
        for _ in 0..RUNS {
            let both = COSTS.into_iter().zip(costs.iter_mut().zip(&mut runs));
            for ((_, slice), ((_, fault), runs)) in both {
                match two_computations(slice) {
                    Ok(took) => runs.push(took),
                    Err(found) => *fault = Some(found),
                }
            }
        }
        for ((values, _), mut runs) in costs.iter_mut().zip(runs) {
            runs.sort_unstable();
            values.extend(runs.get(RUNS / 2).map(|run| run.as_nanos() as f64));
        }
        rounds += 1;
        let time = start.elapsed().as_secs_f64() / effort.budget.as_secs_f64();
        advance(time.max(rounds as f64 / effort.rounds as f64).min(1.0));
    }
    let mut results = Results::default();
    for (way, (values, fault)) in WAYS.iter().zip(values.into_iter().zip(faults)) {
        for (case, values) in way.cases.into_iter().zip(values) {
            let unit = "ns";
            results.add(Series { case, unit, values }, fault.clone());
        }
    }
    for ((case, _), (values, fault)) in COSTS.into_iter().zip(costs) {
        let unit = "ns";
        results.add(Series { case, unit, values }, fault);
    }
    Ok(results)
}

/// Returns the CPU time that two computations take on one worker.
fn two_computations(slice: Duration) -> Result<Duration, Fault> {
    let runtime = with_one_worker(slice)?;
    let begun = Arc::new(AtomicUsize::new(0));
    let begin = cpu_time();
    let both = [1, 2].map(|seed| {
        let begun = Arc::clone(&begun);
        runtime.spawn(move || {
            // Relaxed: one worker runs both.
            begun.fetch_add(1, Ordering::Relaxed);
            // The multiplier of Knuth's MMIX.
            let step = |x: u64, step| black_box(x.wrapping_mul(6364136223846793005) ^ step);
            black_box((0..STEPS).fold(seed, step));
            begun.load(Ordering::Relaxed)
        })
    });
    let [first, second] = both.map(|one| one.join().ok());
    let took = cpu_time() - begin;
    // The one that ends first has seen the other one begin only if that has preempted it.
    match (first.min(second), slice == runtime::DEFAULT_SLICE) {
        (None, _) => Err(Fault::from("a thread has panicked")),
        (Some(1), true) => Err(Fault::from("no computation was preempted")),
        (Some(2), false) => Err(Fault::from("a computation was preempted")),
        _ => Ok(took),
    }
}

/// Returns the CPU time of this process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes a time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

fn with_one_worker(slice: Duration) -> Result<Runtime, Fault> {
    let started = Options::new().workers(1).slice(slice).start();
    started.map_err(|error| Fault::untried(error.to_string()))
}

/// Pauses of different lengths, so that waits begin anywhere in a slice.
fn pauses(count: usize) -> impl Iterator<Item = Duration> {
    // A fixed seed: two benchmarks of one machine differ by the machine only.
    let mut random = fastrand::Rng::with_seed(1);
    (0..count).map(move |_| Duration::from_micros(random.u64(..3_000)))
}

/// Computes until the flag is set.
fn compute(until: &AtomicBool) {
    // Relaxed: nothing depends on it.
    while !until.load(Ordering::Relaxed) {
        spin_loop();
    }
}

fn with_runtime(count: usize) -> Result<Vec<Duration>, Fault> {
    let runtime = with_one_worker(runtime::DEFAULT_SLICE)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    let hog = runtime.spawn(move || compute(&until));
    let waits = pauses(count)
        .map(|pause| {
            thread::sleep(pause);
            let begin = Instant::now();
            runtime.spawn(move || begin.elapsed()).join()
        })
        .collect::<Result<_, _>>();
    // Relaxed: as above.
    is_over.store(true, Ordering::Relaxed);
    let hog = hog.join();
    waits
        .and_then(|waits| hog.map(|()| waits))
        .map_err(|_| Fault::from("a thread has panicked"))
}

fn with_std(count: usize) -> Result<Vec<Duration>, Fault> {
    let cpu = machine::allowed_cpus()[0];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            machine::pin(cpu);
            compute(&is_over);
        });
        // New threads inherit the CPU of theirs.
        let waits = scope.spawn(|| {
            machine::pin(cpu);
            pauses(count)
                .map(|pause| {
                    thread::sleep(pause);
                    let begin = Instant::now();
                    thread::spawn(move || begin.elapsed()).join()
                })
                .collect::<Result<_, _>>()
        });
        let waits = waits.join().and_then(|waits| waits);
        // Relaxed: as above.
        is_over.store(true, Ordering::Relaxed);
        waits.map_err(|_| Fault::from("a thread has panicked"))
    })
}

fn with_tokio(count: usize) -> Result<Vec<Duration>, Fault> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).build();
    let runtime = runtime.map_err(|error| Fault::untried(error.to_string()))?;
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    let (begin, begun) = mpsc::channel();
    let hog = runtime.spawn(async move {
        let _ = begin.send(());
        compute(&until);
    });
    let _ = begun.recv();
    let waits = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..count {
        let waits = Arc::clone(&waits);
        let begin = Instant::now();
        runtime.spawn(async move {
            let wait = begin.elapsed();
            waits
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(wait);
        });
    }
    thread::sleep(BOUND);
    let waits = waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Relaxed: nothing depends on it.
    is_over.store(true, Ordering::Relaxed);
    let hog = runtime.block_on(hog);
    match (hog, waits.len()) {
        (Ok(()), begun) if begun == count => Ok(waits),
        (Ok(()), begun) => Err(Fault::from(format!(
            "{begun} of {count} tasks began while another one computed for {BOUND:?}: no bound"
        ))),
        (Err(_), _) => Err(Fault::from("a task has panicked")),
    }
}
