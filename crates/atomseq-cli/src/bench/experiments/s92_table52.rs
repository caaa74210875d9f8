//! `s92-table52`: S92 5.3.3: the cost of operations on threads. The requester's part and the
//! dispatcher's part of an operation are measured apart.
//!
//! A round makes a crowd of threads and does each operation to all of them, so that a figure is of
//! the operation alone. There are two kinds of threads:
//!
//! * Coroutines, of one kernel thread. No other thread acts on them, so the table's operations on
//!   another thread do not exist there. The dispatcher's parts contain the switch to the coroutine.
//! * Threads of a runtime with one worker. The requester is another thread of that worker, which
//!   keeps it while it makes its requests, and then yields: the time of the yield is the
//!   dispatcher's part. The crowd has not begun, so a dispatcher that suspends or destroys a thread
//!   makes no switch to it. Those that step have begun. Each has a kernel thread, so a step
//!   contains the switches to that and back.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use atomseq_threads::coroutine::{self, JoinHandle};
use atomseq_threads::runtime::{self, Destroyed, Options, Runtime};

use super::threads::in_coroutine;
use super::{Experiment, Method, Threads, cases};
use crate::bench::beside::Beside;
use crate::bench::crew::measure_aside;
use crate::bench::engine::Effort;
use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;
use crate::error::Error;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "s92-table52",
    about: "S92's table 5.2: threads created, destroyed, suspended, resumed, signalled and stepped by another one, each part alone",
    cases: cases! {
        "create:coroutine", "coroutine::spawn, on a stack that is used again";
        "create:runtime", "runtime::spawn, which shares what the spawner hands down";
        "create:std", "std::thread::spawn, until it returns";
        "end:coroutine", "the switch to a coroutine that returns at once, and its end";
        "end:runtime", "the dispatch of a thread that returns at once, and its end";
        "destroy:runtime", "Thread::destroy, of a thread that waits for its turn";
        "destroy-dispatch:runtime", "the dispatch of a thread that is to be destroyed, and its end";
        "suspend:runtime", "Thread::suspend, of a thread that waits for its turn";
        "suspend-dispatch:coroutine", "the switch to a coroutine that parks itself";
        "suspend-dispatch:runtime", "the dispatch of a thread that is to be suspended";
        "resume-ready:coroutine", "Coroutine::unpark, of one that is in the ring of those that are ready";
        "resume-ready:runtime", "Thread::resume, before the thread has stopped";
        "resume-parked:coroutine", "Coroutine::unpark, of one that is parked";
        "resume-parked:runtime", "Thread::resume, of a thread that is suspended";
        "signal:runtime", "Thread::signal, of a thread that waits for its turn";
        "signal-dispatch:runtime", "the dispatch of a thread that calls its procedure and returns";
        "step:runtime", "Thread::step, until the thread is suspended again";
    },
    peers: &["std"],
    method: Method::Own { threads: 1, run },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "S92",
        table: Some("5.2"),
        programs: &[
            ("create", "Create shared vector table"),
            ("destroy", "Destroy"),
            ("destroy-dispatch", "Destroy, in dispatcher"),
            ("suspend", "Suspend"),
            ("suspend-dispatch", "Suspend, in dispatcher"),
            ("resume-ready", "Resume, if in Q"),
            ("resume-parked", "Resume, not in Q"),
            ("signal", "Signal"),
            ("signal-dispatch", "Signal, in scheduler"),
            ("step", "Step (no FP, no VM switch)"),
        ],
        counterparts: &[("runtime", "Time")],
        nearest: &[("coroutine", "Time")],
        sections: &["5.3.3"],
        note: "runtime: a dispatcher's part of destroy and signal contains the beginning and the end of the thread, which end has alone; \
               there, the scheduler calls the procedure on the thread's stack, and here the thread does at its first safepoint. A step \
               there is one instruction, and here leads to the next safepoint, on a kernel thread of its own. coroutine: no other CPU's \
               dispatcher interferes with their queue, so their operations take no atomic instruction. One that suspends itself calls \
               the scheduler, as there.",
        ..Beside::NOTHING
    }),
};

/// The threads of a round, and those of them that have a kernel thread.
const CROWD: u32 = 256;
const THREADS: u32 = 8;

/// The cases of coroutines, of the runtime, and of the system, in the order of a round's values.
const CASES: [&str; 17] = [
    "create:coroutine",
    "end:coroutine",
    "suspend-dispatch:coroutine",
    "resume-ready:coroutine",
    "resume-parked:coroutine",
    "create:runtime",
    "end:runtime",
    "destroy:runtime",
    "destroy-dispatch:runtime",
    "suspend:runtime",
    "suspend-dispatch:runtime",
    "resume-ready:runtime",
    "resume-parked:runtime",
    "signal:runtime",
    "signal-dispatch:runtime",
    "step:runtime",
    "create:std",
];

/// Why a round has no values.
type Wrong = &'static str;

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    measure_aside(advance, |shares| measure(effort, shares))
}

fn measure(effort: Effort, shares: &Sender<f64>) -> Result<Results, Error> {
    let mut values = CASES.map(|_| Vec::new());
    let mut fault = None;
    let mut rounds = |runtime: &Runtime| {
        let start = Instant::now();
        let rounds = effort.warm_up + effort.rounds;
        for round in 0..rounds {
            if round >= effort.warm_up + Effort::MIN_ROUNDS && start.elapsed() >= effort.budget {
                break;
            }
            match undisturbed(runtime) {
                Ok(times) if round >= effort.warm_up => {
                    for (values, time) in values.iter_mut().zip(times) {
                        values.push(time);
                    }
                }
                Ok(_) => {}
                Err(sentence) => fault = Some(Fault::from(sentence)),
            }
            // The receiver may be gone, which is no reason to stop.
            let _ = shares.send((round + 1) as f64 / rounds as f64);
        }
    };
    match one_worker() {
        // One run, so that stacks are used again.
        Ok(runtime) => in_coroutine(|| rounds(&runtime)),
        Err(error) => fault = Some(Fault::untried(error.to_string())),
    }
    let mut results = Results::default();
    for (case, values) in CASES.into_iter().zip(values) {
        results.add(
            Series {
                case,
                unit: "ns",
                values,
            },
            fault.clone(),
        );
    }
    Ok(results)
}

/// Returns the times of a round. One in which the kernel stops the requester for long is repeated:
/// the monitor passes the worker on then, so the crowd begins too early.
fn undisturbed(runtime: &Runtime) -> Result<Vec<f64>, Wrong> {
    const TRIES: usize = 5;
    let mut last = all(runtime);
    for _ in 1..TRIES {
        if last.is_ok() {
            break;
        }
        last = all(runtime);
    }
    last
}

/// Starts a runtime that preempts nothing, so that the requester keeps the worker.
fn one_worker() -> Result<Runtime, runtime::Error> {
    let slice = Duration::from_secs(3600);
    Options::new().workers(1).slice(slice).start()
}

/// Returns the nanoseconds of each operation, in the order of the cases. Called by a coroutine.
fn all(runtime: &Runtime) -> Result<Vec<f64>, Wrong> {
    let mut times = coroutines()?.to_vec();
    times.extend(runtime.run(threads)?);
    times.push(create_std()?);
    Ok(times)
}

fn took(begin: Instant, operations: u32) -> f64 {
    begin.elapsed().as_nanos() as f64 / f64::from(operations)
}

/// Returns the nanoseconds of each operation, in a crowd of coroutines.
fn coroutines() -> Result<[f64; 5], Wrong> {
    let turns = Rc::new(Cell::new(0));

    let begin = Instant::now();
    let crowd: Vec<_> = spawn(|| ());
    let create = took(begin, CROWD);
    let begin = Instant::now();
    // All that are ready run, and end.
    coroutine::yield_now();
    let end = took(begin, CROWD);
    if !crowd.iter().all(JoinHandle::is_finished) {
        return Err("a coroutine that returns at once has not ended");
    }

    // Each parks three times.
    let counted = Rc::clone(&turns);
    let crowd: Vec<_> = spawn(move || {
        for _ in 0..3 {
            counted.set(counted.get() + 1);
            coroutine::park();
        }
    });
    let unpark = |expected: u32| {
        let begin = Instant::now();
        for one in &crowd {
            black_box(one).coroutine().unpark();
        }
        let took = took(begin, CROWD);
        (turns.get() == expected).then_some(took)
    };
    coroutine::yield_now();
    let resume_parked = unpark(CROWD);
    // They are ready now, and have a token.
    let resume_ready = unpark(CROWD);
    let begin = Instant::now();
    coroutine::yield_now();
    let suspend = took(begin, CROWD);
    let again = unpark(2 * CROWD);
    coroutine::yield_now();
    let last = unpark(3 * CROWD);
    coroutine::yield_now();
    if !crowd.iter().all(JoinHandle::is_finished) {
        return Err("a coroutine that was unparked has not run");
    }
    match (resume_parked, resume_ready, again.and(last)) {
        (Some(resume_parked), Some(resume_ready), Some(_)) => {
            Ok([create, end, suspend, resume_ready, resume_parked])
        }
        _ => Err("a coroutine that is parked has run"),
    }
}

fn spawn(f: impl Fn() + Clone + 'static) -> Vec<JoinHandle<()>> {
    let spawn = |_| coroutine::spawn(f.clone());
    (0..CROWD).map(spawn).collect()
}

/// A crowd of a runtime's threads, and how often they have run.
struct Crowd {
    handles: Vec<runtime::JoinHandle<()>>,
    threads: Vec<runtime::Thread>,
    ran: Arc<AtomicU32>,
}

impl Crowd {
    /// Makes a crowd. Each thread counts, then calls `f` with the count. Returns it with the time
    /// of a spawn.
    fn new(count: u32, f: fn(&AtomicU32)) -> (Crowd, f64) {
        let ran = Arc::new(AtomicU32::new(0));
        let mut handles = Vec::with_capacity(count as usize);
        let begin = Instant::now();
        for _ in 0..count {
            let ran = Arc::clone(&ran);
            handles.push(runtime::spawn(move || {
                // Relaxed, here and below: the counts are read after the thread has left RUNNING.
                ran.fetch_add(1, Ordering::Relaxed);
                f(&ran);
            }));
        }
        let create = took(begin, count);
        let threads = handles.iter().map(runtime::JoinHandle::thread).collect();
        let crowd = Crowd {
            handles,
            threads,
            ran,
        };
        (crowd, create)
    }

    fn ran(&self) -> u32 {
        self.ran.load(Ordering::Relaxed)
    }

    /// Returns the time of a request to each.
    fn request(&self, request: impl Fn(&runtime::Thread)) -> f64 {
        let begin = Instant::now();
        for thread in &self.threads {
            request(black_box(thread));
        }
        took(begin, self.threads.len() as u32)
    }

    /// Lets the dispatcher work until `is_true` of all. Returns its time for each.
    fn dispatch(&self, is_true: impl Fn(&runtime::Thread) -> bool) -> f64 {
        let begin = Instant::now();
        loop {
            runtime::yield_now();
            let elapsed = took(begin, self.threads.len() as u32);
            if self.threads.iter().all(&is_true) {
                return elapsed;
            }
        }
    }

    /// Joins all. Returns whether each was destroyed.
    fn join(self) -> Result<bool, Wrong> {
        let mut destroyed = 0;
        let count = self.handles.len();
        for handle in self.handles {
            match handle.join() {
                Ok(()) => {}
                Err(payload) if payload.is::<Destroyed>() => destroyed += 1,
                Err(_) => return Err("a thread has panicked"),
            }
        }
        Ok(destroyed == count)
    }
}

/// Returns the nanoseconds of each operation, in crowds of threads of the runtime whose only worker
/// the caller has.
fn threads() -> Result<[f64; 11], Wrong> {
    let (ending, create) = Crowd::new(CROWD, |_| ());
    let end = ending.dispatch(runtime::Thread::is_finished);

    let (dying, _) = Crowd::new(CROWD, |_| ());
    let destroy = dying.request(runtime::Thread::destroy);
    let destroy_dispatch = dying.dispatch(runtime::Thread::is_finished);
    if dying.ran() != 0 || !dying.join()? {
        return Err("a thread that was destroyed before it began has run");
    }

    let (crowd, _) = Crowd::new(CROWD, |_| ());
    let suspend = crowd.request(runtime::Thread::suspend);
    // They wait for their turn still.
    let resume_ready = crowd.request(runtime::Thread::resume);
    crowd.request(runtime::Thread::suspend);
    let suspend_dispatch = crowd.dispatch(runtime::Thread::is_suspended);
    if crowd.ran() != 0 {
        return Err("a thread that was suspended before it began has run");
    }
    let resume_parked = crowd.request(runtime::Thread::resume);
    crowd.dispatch(runtime::Thread::is_finished);
    if crowd.ran() != CROWD || crowd.join()? || ending.ran() != CROWD {
        return Err("a thread has not run exactly once");
    }

    let (crowd, _) = Crowd::new(CROWD, |_| runtime::checkpoint());
    let called = Arc::new(AtomicU32::new(0));
    let signal = crowd.request(|thread| {
        let called = Arc::clone(&called);
        thread.signal(move || {
            called.fetch_add(1, Ordering::Relaxed);
        });
    });
    if crowd.ran() != 0 {
        return Err("a thread has begun while another one had its worker");
    }
    let signal_dispatch = crowd.dispatch(runtime::Thread::is_finished);
    if called.load(Ordering::Relaxed) != CROWD {
        return Err("a procedure was not called exactly once");
    }

    // Each steps once to begin and stop, and once to be measured.
    let (crowd, _) = Crowd::new(THREADS, |ran| {
        runtime::checkpoint();
        ran.fetch_add(1, Ordering::Relaxed);
        runtime::checkpoint();
        ran.fetch_add(1, Ordering::Relaxed);
    });
    crowd.request(runtime::Thread::suspend);
    crowd.dispatch(runtime::Thread::is_suspended);
    let mut step = 0.0;
    for turn in 1..=2 {
        let begin = Instant::now();
        let is_suspended = crowd.threads.iter().all(|thread| black_box(thread).step());
        crowd.dispatch(runtime::Thread::is_suspended);
        step = took(begin, THREADS);
        if !is_suspended || crowd.ran() != turn * THREADS {
            return Err("a step has not led to the next safepoint");
        }
    }
    crowd.request(runtime::Thread::resume);
    crowd.dispatch(runtime::Thread::is_finished);
    if crowd.ran() != 3 * THREADS || crowd.join()? {
        return Err("a thread that was resumed has not finished");
    }
    Ok([
        create,
        end,
        destroy,
        destroy_dispatch,
        suspend,
        suspend_dispatch,
        resume_ready,
        resume_parked,
        signal,
        signal_dispatch,
        step,
    ])
}

/// Returns the nanoseconds of a spawn of a thread of `std`.
fn create_std() -> Result<f64, Wrong> {
    let begin = Instant::now();
    let threads: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(|| ())).collect();
    let create = took(begin, THREADS);
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")?;
    }
    Ok(create)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_done_to_all_of_a_crowd() {
        let runtime = one_worker().unwrap();
        for _ in 0..3 {
            let times = in_coroutine(|| undisturbed(&runtime)).unwrap();
            assert_eq!(times.len(), CASES.len());
            assert!(times.iter().all(|time| *time > 0.0), "{times:?}");
        }
    }
}
