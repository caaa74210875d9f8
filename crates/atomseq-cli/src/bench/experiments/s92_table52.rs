//! `s92-table52`: S92 5.3.3: the cost of operations on threads. The requester's part and the
//! dispatcher's part of an operation are measured apart.
//!
//! A round makes a crowd of coroutines and does each operation to all of them, so that a figure is
//! of the operation alone. The dispatcher's parts contain the switch to the thread. Four operations
//! of the table are left out, because coroutines do not have them: to suspend another thread, to
//! signal it, to step it, and to destroy it before its end. The threads of
//! [`atomseq_threads::runtime`] have these four. They are not measured here: such a thread occupies
//! a kernel thread once it has begun, so a figure would be of the kernel's switches as well.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::time::Instant;

use atomseq_threads::coroutine::{self, JoinHandle};

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
    about: "S92's table 5.2: coroutines made, ended, parked and unparked, each part alone",
    cases: cases! {
        "create:coroutine", "coroutine::spawn, on a stack that is used again";
        "create:std", "std::thread::spawn, until it returns";
        "end:coroutine", "the switch to a coroutine that returns at once, and its end";
        "suspend:coroutine", "the switch to a coroutine that parks itself";
        "resume-ready:coroutine", "Coroutine::unpark, of one that is in the ring of those that are ready";
        "resume-parked:coroutine", "Coroutine::unpark, of one that is parked";
    },
    peers: &["std"],
    method: Method::Own { threads: 1, run },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "S92",
        table: Some("5.2"),
        programs: &[
            ("create", "Create shared vector table"),
            ("end", "Destroy, in dispatcher"),
            ("suspend", "Suspend, in dispatcher"),
            ("resume-ready", "Resume, if in Q"),
            ("resume-parked", "Resume, not in Q"),
        ],
        nearest: &[("coroutine", "Time")],
        sections: &["5.3.3"],
        note: "Coroutines of one kernel thread stand nearest to Synthesis's threads: no other CPU's dispatcher interferes with their \
               queue, so their operations take no atomic instruction. One that suspends itself calls the scheduler, as there. \
               Only the threads of atomseq_threads::runtime can be suspended by others, signalled, stepped and destroyed; they take \
               kernel threads, and are not measured here.",
        ..Beside::NOTHING
    }),
};

/// The coroutines of a round, and the kernel threads.
const CROWD: u32 = 256;
const THREADS: u32 = 8;

/// The cases, in the order of a round's values.
const CASES: [&str; 6] = [
    "create:coroutine",
    "create:std",
    "end:coroutine",
    "suspend:coroutine",
    "resume-ready:coroutine",
    "resume-parked:coroutine",
];

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    measure_aside(advance, |shares| measure(effort, shares))
}

fn measure(effort: Effort, shares: &Sender<f64>) -> Result<Results, Error> {
    let mut values = CASES.map(|_| Vec::new());
    let mut fault = None;
    coroutine::run(|| {
        let start = Instant::now();
        let rounds = effort.warm_up + effort.rounds;
        for round in 0..rounds {
            if round >= effort.warm_up + Effort::MIN_ROUNDS && start.elapsed() >= effort.budget {
                break;
            }
            match crowd() {
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
    });
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

/// Returns the nanoseconds of each operation, in a crowd. An error says what was not done.
fn crowd() -> Result<[f64; CASES.len()], &'static str> {
    let turns = Rc::new(Cell::new(0));
    let took =
        |begin: Instant, operations: u32| begin.elapsed().as_nanos() as f64 / f64::from(operations);

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

    let begin = Instant::now();
    let threads: Vec<_> = (0..THREADS).map(|_| std::thread::spawn(|| ())).collect();
    let create_std = took(begin, THREADS);
    for thread in threads {
        thread.join().map_err(|_| "a thread has panicked")?;
    }
    match (resume_parked, resume_ready, again.and(last)) {
        (Some(resume_parked), Some(resume_ready), Some(_)) => Ok([
            create,
            create_std,
            end,
            suspend,
            resume_ready,
            resume_parked,
        ]),
        _ => Err("a coroutine that is parked has run"),
    }
}

fn spawn(f: impl Fn() + Clone + 'static) -> Vec<JoinHandle<()>> {
    let spawn = |_| coroutine::spawn(f.clone());
    (0..CROWD).map(spawn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_done_to_all_of_a_crowd() {
        let times = coroutine::run(crowd).unwrap();
        assert!(times.iter().all(|time| *time > 0.0), "{times:?}");
    }
}
