//! `rollforward-cost`: what a signal costs that arrives at a certain instruction, by what that instruction belongs to.
//!
//! Every case runs the same steps, interrupted at the same one of them by the same means, and only what the code there
//! belongs to is different: nothing that atomseq knows of, a sequence that is restarted, one that is rolled forward, or
//! code under `signal::mask()`. What brings the thread there is the same in all of them (see `interruption`), and is taken
//! off: next to each interruption whose signal is delivered there is one without a signal, and a value is how much longer
//! the one took than the other. That is what a signal costs whom it interrupts and who sends it, which is the thread
//! itself: sending, delivery, handler, return; with a rollforward the sequence's run to its end as well; with a mask the
//! first delivery, which only puts the signal off, and the system calls around the second.
//!
//! The cases `pending:…` take sending off too, by a third interruption whose signal is ignored: the kernel queues it, as
//! it is blocked, and drops it where it would have delivered the other. They begin where a pending signal could be
//! delivered, and so tell most sharply what the cases have not in common.

mod interruption;
pub mod trial;

use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use atomseq::signal;

use self::interruption::{Catcher, IGNORED, NONE, Snare, count};
use super::{Experiment, Method};
use crate::bench::beside::Beside;
use crate::bench::engine::Effort;
use crate::bench::record::Series;
use crate::bench::signals::{self, MANAGED, Received};
use crate::error::Error;
use crate::machine;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rollforward-cost",
    about: "a signal's delivery, by what it interrupts (always 1 thread)",
    structure: "signal::install",
    operation: "a delivery by",
    cases: &[
        ("plain", "no sequence is interrupted"),
        ("restarted", "a sequence is, and starts again"),
        ("rolled", "a sequence is, and first runs to its end"),
        (
            "deferred",
            "signal::mask() is in force, and puts the signal off until its end",
        ),
        (
            "pending:plain",
            "the same without what it takes to send the signal",
        ),
        ("pending:restarted", "the same"),
        ("pending:rolled", "the same"),
        ("pending:deferred", "the same"),
        (
            CONSTANT,
            "what brings the thread there, taken off all others",
        ),
    ],
    method: Method::Own { threads: 1, run },
    alone: true,
    beside: Some(&Beside {
        paper: "M94",
        table: None,
        programs: &[],
        counterparts: &[],
        baseline: None,
        arguments: &[],
        reasons: &[],
        sections: &["4.2", "4.3"],
        note: "M94 gives no time of a whole rollforward, only of inspecting a sequence before one, which atomseq does \
               while compiling.",
    }),
};

/// The case that tells what is taken off the others.
const CONSTANT: &str = "constant:interruption";

/// Interruptions of each kind that a value is the median of: a run that the scheduler broke into is one among them.
const INTERRUPTIONS: usize = 101;

/// A way to be interrupted.
struct Way {
    case: &'static str,
    pending: &'static str,
    arrival: Arrival,
    /// Runs the sequence once; what this thread had received when it was at its end.
    once: fn(&Snare) -> Received,
}

/// How signals arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    Plain,
    Restarted,
    Rolled,
    Deferred,
}

// SAFETY, for all four: the forms are the sequence's, and whoever has a way has a catcher.
const WAYS: [Way; 4] = [
    Way {
        case: "plain",
        pending: "pending:plain",
        arrival: Arrival::Plain,
        once: |snare| {
            // SAFETY: see above.
            unsafe { snare.run_into(count::unprotected) };
            signals::received()
        },
    },
    Way {
        case: "restarted",
        pending: "pending:restarted",
        arrival: Arrival::Restarted,
        once: |snare| {
            // SAFETY: see above.
            unsafe { snare.run_into(count::restarting) };
            signals::received()
        },
    },
    Way {
        case: "rolled",
        pending: "pending:rolled",
        arrival: Arrival::Rolled,
        once: |snare| {
            // SAFETY: see above.
            unsafe { snare.run_into(count::rolling) };
            signals::received()
        },
    },
    Way {
        case: "deferred",
        pending: "pending:deferred",
        arrival: Arrival::Deferred,
        once: |snare| {
            let _mask = signal::mask();
            // SAFETY: see above.
            unsafe { snare.run_into(count::unprotected) };
            signals::received()
        },
    },
];

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Vec<Series>, Error> {
    signals::manage();
    let (shares, told) = mpsc::channel();
    thread::scope(|scope| {
        // A thread of its own: pinning is for good.
        let measured = scope.spawn(move || {
            machine::pin(machine::allowed_cpus()[0]);
            measure(effort, &shares)
        });
        told.iter().for_each(advance);
        match measured.join() {
            Ok(series) => series,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The rounds, on this thread.
fn measure(effort: Effort, shares: &Sender<f64>) -> Result<Vec<Series>, Error> {
    let runs: Vec<_> = WAYS.iter().map(Run::new).collect();
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
            } = runs[way].interrupt();
            if round >= effort.warm_up {
                sent[way].push(delivered - nothing);
                pending[way].push(delivered - ignored);
                if way == 0 {
                    constant.push(nothing);
                }
            }
        }
        let spent = started.elapsed().as_secs_f64() / effort.budget.as_secs_f64();
        // Nobody may be listening any more, which is no reason to stop.
        let _ = shares.send(spent.max((round + 1) as f64 / rounds as f64).min(1.0));
        if spent >= 1.0 && round + 1 >= effort.warm_up + Effort::FEWEST {
            break;
        }
    }
    for run in &runs {
        run.check().map_err(|fault| Error::Wrong {
            experiment: EXPERIMENT.name,
            case: run.way.case,
            threads: 1,
            fault,
        })?;
    }
    let cases = WAYS.iter().map(|way| way.case);
    let cases = cases
        .chain(WAYS.iter().map(|way| way.pending))
        .chain([CONSTANT]);
    let values = sent.into_iter().chain(pending).chain([constant]);
    let series = cases.zip(values).map(|(case, values)| Series {
        case,
        unit: "ns/op",
        values,
    });
    Ok(series.collect())
}

/// How long interruptions of each kind took, in nanoseconds.
struct Took {
    /// With a signal that is delivered.
    delivered: f64,
    /// With a signal that is ignored.
    ignored: f64,
    /// Without a signal.
    nothing: f64,
}

/// A way on the thread that it was made on.
struct Run {
    way: &'static Way,
    snare: Snare,
    done: std::cell::Cell<u64>,
    received: std::cell::Cell<Received>,
    /// How many came only after the sequence's end.
    late: std::cell::Cell<u64>,
    _catcher: Catcher,
}

impl Run {
    fn new(way: &'static Way) -> Self {
        Self {
            way,
            snare: Snare::new(),
            done: 0.into(),
            received: Received::default().into(),
            late: 0.into(),
            _catcher: Catcher::new(),
        }
    }

    /// Interrupts itself by each kind of signal in turns.
    fn interrupt(&self) -> Took {
        let received = signals::received();
        let mut took = [[0_u64; INTERRUPTIONS]; 3];
        self.snare.lay();
        for turn in 0..INTERRUPTIONS {
            for (took, signal) in took.iter_mut().zip([MANAGED, IGNORED, NONE]) {
                took[turn] = self.time(signal);
            }
        }
        self.snare.take_up();
        self.done.set(self.done.get() + INTERRUPTIONS as u64);
        let mut all = self.received.get();
        all += signals::received().since(received);
        self.received.set(all);
        let [delivered, ignored, nothing] = took.map(median);
        Took {
            delivered,
            ignored,
            nothing,
        }
    }

    fn time(&self, signal: i32) -> u64 {
        self.snare.send(signal);
        let start = Instant::now();
        let received = (self.way.once)(&self.snare);
        let took = start.elapsed().as_nanos() as u64;
        let late = signals::received().since(received).total();
        self.late.set(self.late.get() + late);
        took
    }

    /// Whether every sequence has had its effect once and every signal arrived as it was to.
    fn check(&self) -> Result<(), String> {
        let (done, counted) = (self.done.get(), self.snare.counted());
        if counted != 3 * done {
            return Err(format!(
                "{counted} sequences of {} had their effect",
                3 * done
            ));
        }
        let mut expected = Received::default();
        *match self.way.arrival {
            Arrival::Plain | Arrival::Deferred => &mut expected.plain,
            Arrival::Restarted => &mut expected.restarted,
            Arrival::Rolled => &mut expected.rolled_forward,
        } = done;
        let received = self.received.get();
        if received != expected {
            return Err(format!(
                "its handler ran for {received:?}, not {expected:?}"
            ));
        }
        let expected = if self.way.arrival == Arrival::Deferred {
            done
        } else {
            0
        };
        let late = self.late.get();
        if late != expected {
            return Err(format!(
                "{late} signals of {done} came after the sequence, not {expected}"
            ));
        }
        Ok(())
    }
}

fn median(mut values: [u64; INTERRUPTIONS]) -> f64 {
    values.sort_unstable();
    values[INTERRUPTIONS / 2] as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(way: &'static Way) -> Result<(), String> {
        signals::manage();
        let run = Run::new(way);
        run.interrupt();
        run.interrupt();
        run.check()
    }

    #[test]
    fn every_way_is_interrupted_as_it_says() {
        for way in &WAYS {
            assert_eq!(judge(way), Ok(()), "{}", way.case);
        }
    }

    #[test]
    fn the_check_tells_what_was_interrupted() {
        const fn mistaken(arrival: Arrival, once: fn(&Snare) -> Received) -> Way {
            Way {
                case: "mistaken",
                pending: "pending:mistaken",
                arrival,
                once,
            }
        }
        static ROLLED: Way = mistaken(Arrival::Rolled, WAYS[0].once);
        static PLAIN: Way = mistaken(Arrival::Plain, WAYS[1].once);
        static DEFERRED: Way = mistaken(Arrival::Deferred, WAYS[0].once);
        static NOTHING: Way = mistaken(Arrival::Plain, |_| signals::received());
        for (way, fault) in [
            (&ROLLED, "plain: 202"),
            (&PLAIN, "restarted: 202"),
            (
                &DEFERRED,
                "0 signals of 202 came after the sequence, not 202",
            ),
            (&NOTHING, "0 sequences of 606 had their effect"),
        ] {
            let told = judge(way).unwrap_err();
            assert!(told.contains(fault), "{told}");
        }
    }
}
