//! `rollforward-cost`: what a signal costs that arrives at a certain instruction, by what that
//! instruction belongs to.
//!
//! Every case runs the same steps, interrupted at the same one of them by the same means, and only
//! what the code there belongs to is different: nothing that atomseq knows of, a sequence that is
//! restarted, one that is rolled forward, or code under `signal::mask()`. What brings the thread
//! there is the same in all of them (see `interruption`), and is taken off: next to each
//! interruption whose signal is delivered there is one without a signal, and a value is the
//! difference of the two. That is the cost of a signal for its sender and the interrupted code,
//! which are the same thread: sending, delivery, handler, return; with a rollforward the sequence's
//! run to its end as well; with a mask the first delivery, which only defers the signal, and the
//! system calls around the second.
//!
//! The cases `pending:…` subtract sending as well, by a third interruption whose signal is ignored:
//! the kernel queues it, as it is blocked, and drops it where it would have delivered the other.
//! They begin where a pending signal could be delivered, and so show most sharply how the cases
//! differ.
//!
//! `bare` is `plain` without atomseq: a handler that `sigaction` has installed. The cases
//! `instructions:…` count what those handlers' deliveries execute (`steps`), the cases `inspect:…`
//! time what M94 does before a rollforward (`inspection`).

mod inspection;
pub mod interruption;
mod run;
mod steps;
pub mod trial;
mod ways;

use std::sync::mpsc::Sender;
use std::time::Instant;

use self::run::{Run, Took};
use self::ways::WAYS;
use super::{Experiment, Method, Threads, cases};
use crate::bench::beside::{Beside, Difference};
use crate::bench::crew::measure_aside;
use crate::bench::engine::Effort;
use crate::bench::fault::Results;
use crate::bench::record::Series;
use crate::bench::signals;
use crate::error::Error;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rollforward-cost",
    about: "the delivery of a signal, by what it interrupts (always 1 thread)",
    cases: cases! {
        "plain", "no sequence is interrupted";
        "restarted", "a sequence is interrupted and restarts";
        "rolled", "a sequence is interrupted and first runs to its end";
        "deferred", "signal::mask() is in force and defers the signal to its end";
        "bare", "plain, with a handler of sigaction's instead of one of atomseq's";
        "pending:plain", "plain, less the time to send the signal";
        "pending:restarted", "restarted, less the time to send the signal";
        "pending:rolled", "rolled, less the time to send the signal";
        "pending:deferred", "deferred, less the time to send the signal";
        "pending:bare", "bare, less the time to send the signal";
        "instructions:plain", "instructions of a delivery in no sequence, but for its handler's own";
        "instructions:restarted", "instructions of a delivery that restarts a sequence";
        "instructions:rolled", "instructions of a delivery that runs a sequence to its end";
        "instructions:bare", "instructions of a delivery without atomseq: the return";
        inspection::WHOLE, "checking the code of a sequence of 16 instructions";
        inspection::CLONED, "checking the code of a sequence of 16 instructions, and of its clone";
        inspection::INSTRUCTION, "checking one instruction more";
        inspection::HYBRID, "the check of Hyb/Jump, of what is left of a sequence: 16 instructions";
        inspection::HYBRID_INSTRUCTION, "the check of Hyb/Jump, of one instruction more";
        CONSTANT, "the interruption without a signal, subtracted from all others";
    },
    peers: &[],
    method: Method::Own { threads: 1, run },
    threads: Threads::Alone,
    beside: Some(&Beside {
        paper: "M94",
        differences: &[
            Difference {
                name: "an interrupt",
                of: "plain",
                over: "bare",
            },
            Difference {
                name: "a restart",
                of: "restarted",
                over: "plain",
            },
            Difference {
                name: "a rollforward",
                of: "rolled",
                over: "plain",
            },
        ],
        sections: &["4.2", "4.3"],
        also: &[("B91", "3.2")],
        note: "M94's Hyb/Jump inspects before each rollforward; atomseq does so once, while it makes its table. B91's \
               instructions are those of a restart, instructions:restarted here.",
        ..Beside::NOTHING
    }),
};

/// The case that shows what is subtracted from the others.
const CONSTANT: &str = "constant:interruption";

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    signals::manage()?;
    measure_aside(advance, |shares| measure(effort, shares))
}

/// The rounds, on this thread.
fn measure(effort: Effort, shares: &Sender<f64>) -> Result<Results, Error> {
    let runs = WAYS.iter().map(Run::new);
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let mut sent = vec![Vec::new(); WAYS.len()];
    let mut pending = vec![Vec::new(); WAYS.len()];
    let mut constant = Vec::new();
    let mut order: Vec<_> = (0..WAYS.len()).collect();
    // A fixed seed: two benchmarks of one machine differ by the machine only.
    let mut random = fastrand::Rng::with_seed(1);
    let started = Instant::now();
    let rounds = effort.warm_up + effort.rounds;
    for round in 0..rounds {
        random.shuffle(&mut order);
        for &way in &order {
            let Took {
                delivered,
                ignored,
                nothing,
            } = runs[way].interrupt()?;
            if round >= effort.warm_up {
                sent[way].push(delivered - nothing);
                pending[way].push(delivered - ignored);
                if way == 0 {
                    constant.push(nothing);
                }
            }
        }
        let spent = started.elapsed().as_secs_f64() / effort.budget.as_secs_f64();
        // The receiver may be gone, which is no reason to stop.
        let _ = shares.send(spent.max((round + 1) as f64 / rounds as f64).min(1.0));
        if spent >= 1.0 && round + 1 >= effort.warm_up + Effort::MIN_ROUNDS {
            break;
        }
    }
    let rounds_taken = constant.len();
    let cases = WAYS.iter().map(|way| way.case);
    let cases = cases
        .chain(WAYS.iter().map(|way| way.pending))
        .chain([CONSTANT]);
    let values = sent.into_iter().chain(pending).chain([constant]);
    // The constant is that of the first.
    let checked = runs.iter().chain(&runs).chain(&runs[..1]).map(Run::check);
    let mut measured = Results::default();
    steps::measure(&mut measured);
    measured.append(inspection::measure(rounds_taken));
    for ((case, values), checked) in cases.zip(values).zip(checked) {
        let unit = "ns/op";
        measured.add(Series { case, unit, values }, checked.err());
    }
    Ok(measured)
}
