//! `stall`: one thread is stopped inside an operation: how long until another one completes one?
//!
//! A thread does operations and nothing else, until a signal stops it wherever it is: its handler
//! sleeps. As soon as another thread sees that, it does one operation on the same object, which is
//! timed. Only stops inside an operation count, a thousand of them unless `--quick`: where other
//! threads have to revoke a stopped thread's operation, stops in which they did; elsewhere, stops
//! between an operation's call and its return.
//!
//! A mutex is included as a contrast: no other thread acquires it before the stopped thread
//! continues. Each time that is watched for a while; the figure is that while, not a result.

mod stop;
mod ways;

use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use self::stop::Stop;
use self::ways::{WAYS, Way};
use super::{Experiment, Method, Threads, cases};
use crate::bench::crew::measure_aside;
use crate::bench::engine::Effort;
use crate::bench::fault::{Fault, Results};
use crate::bench::record::Series;
use crate::error::Error;
use crate::machine;
use crate::patience::Patience;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "stall",
    about: "the time of an operation while another thread is stopped inside one (always 2 threads)",
    cases: cases! {
        "os-assisted", "dcas::Domain, OS-assisted: the stopped thread's operation is revoked";
        "k-cas", "dcas::Domain, k-CAS: the stopped thread's operation is completed";
        "stack", "nonblocking::Stack";
        "queue", "nonblocking::Queue";
        "list", "nonblocking::List";
        "map", "nonblocking::HashMap";
        "multi-map", "nonblocking::MultiMap";
        "priority-queue", "nonblocking::PriorityQueue";
        "page-map", "nonblocking::PageMap";
        "server", "nonblocking::Server: callers take the stopped thread's place";
        "watched:mutex", "std::sync::Mutex: indefinitely; the figure is how long it was watched";
    },
    peers: &["mutex"],
    method: Method::Own { threads: 2, run },
    threads: Threads::Spread,
    beside: None,
};

/// How many stops are tried for one that is inside.
const TRIES: usize = 1_000;

/// How many times its budget a case takes at most, where hardly a stop is inside: on a busy
/// machine, threads do not run at the same time.
const LONGEST: u32 = 20;

/// The maximum time that a stop counts as: the process may have been stopped itself.
const LONGEST_STOP: Duration = Duration::from_secs(1);

fn run(effort: Effort, advance: &dyn Fn(f64)) -> Result<Results, Error> {
    measure_aside(advance, |shares| measure(effort, shares))
}

fn measure(effort: Effort, shares: &Sender<f64>) -> Result<Results, Error> {
    let budget = effort.budget / WAYS.len() as u32;
    let mut measured = Results::default();
    for (done, way) in WAYS.iter().enumerate() {
        let share = |part: f64| {
            // The receiver may be gone, which is no reason to stop.
            let _ = shares.send((done as f64 + part) / WAYS.len() as f64);
        };
        let (values, fault) = match stalled(way, 2 * effort.rounds, budget, &share) {
            Ok(values) => (values, None),
            Err(Failure::Wrong(fault)) => (Vec::new(), Some(fault)),
            Err(Failure::Untried(error)) => return Err(error),
        };
        let (case, unit) = (way.case, "ns");
        measured.add(Series { case, unit, values }, fault);
    }
    Ok(measured)
}

/// Why there are no values.
#[derive(Debug)]
enum Failure {
    /// The case has a fault.
    Wrong(Fault),
    /// The system refuses what it takes to say so.
    Untried(Error),
}

impl<F: Into<Fault>> From<F> for Failure {
    fn from(fault: F) -> Self {
        Self::Wrong(fault.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Untried(error)
    }
}

/// The nanoseconds that another thread's operation took during each of `stops` stops, or fewer if
/// they take longer than the budget. It is exceeded only by a case that has too few values yet, and
/// at most [`LONGEST`] times.
fn stalled(
    way: &Way,
    stops: usize,
    budget: Duration,
    share: &dyn Fn(f64),
) -> Result<Vec<f64>, Failure> {
    let object = (way.make)();
    let cpus = machine::allowed_cpus();
    let mut values = Vec::with_capacity(stops);
    // A fixed seed: two benchmarks of one machine differ by the machine only.
    let mut random = fastrand::Rng::with_seed(1);
    let stop = Stop::prepare()?;
    let start = Instant::now();
    let mut patience = Patience::new(LONGEST * budget, LONGEST_STOP);
    thread::scope(|scope| {
        let victim = stop.victim(scope, cpus[1 % cpus.len()], |inside| object.operate(inside))?;
        for tried in 1..=stops * TRIES {
            victim.runs_for(Duration::from_nanos(random.u64(..4_000)))?;
            let before = object.revoked();
            let between = victim.stop()?;
            let called = Instant::now();
            let done = object.attempt();
            let took = called.elapsed();
            let inside = match before {
                Some(before) => object.revoked() > Some(before),
                None => between,
            };
            if inside && done != way.completes {
                return Err(Failure::from(match done {
                    true => "another thread completed an operation, which should be impossible",
                    false => "no other thread could complete an operation",
                }));
            }
            victim.resume();
            object.afterwards(done);
            if inside {
                values.push(took.as_nanos() as f64);
                share(values.len() as f64 / stops as f64);
            }
            let is_out = patience.is_over() || tried == stops * TRIES;
            match values.len() {
                all if all == stops => break,
                enough if enough >= Effort::MIN_ROUNDS && (is_out || start.elapsed() >= budget) => {
                    break;
                }
                inside if is_out => {
                    let sentence =
                        format!("only {inside} of {tried} stops were inside an operation");
                    return Err(Failure::from(Fault::untried(sentence)));
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    object.check()?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::stop::Inside;
    use super::ways::Object;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const LITTLE: Duration = Duration::from_millis(2);

    #[test]
    fn a_thread_is_stopped_inside_every_kind_of_operation() {
        for way in &WAYS {
            let values = stalled(way, 3, MINUTE, &|_| ()).unwrap();
            assert_eq!(values.len(), 3, "{}", way.case);
            assert!(values.iter().all(|&nanoseconds| nanoseconds > 0.0));
        }
    }

    /// One case, none of whose stops is inside.
    #[test]
    fn a_case_that_cannot_be_stopped_inside_is_not_measured() {
        struct Never;
        impl Object for Never {
            fn operate(&self, _inside: &Inside) {}
            fn attempt(&self) -> bool {
                true
            }
            fn revoked(&self) -> Option<u64> {
                Some(0)
            }
            fn check(&self) -> Result<(), Fault> {
                Ok(())
            }
        }
        let way = Way {
            case: "never",
            completes: true,
            make: || Box::new(Never),
        };
        let Err(Failure::Wrong(fault)) = stalled(&way, 1_000_000, LITTLE, &|_| ()) else {
            panic!("it has values");
        };
        assert!(fault.untried, "{fault}");
        assert!(fault.sentence.starts_with("only 0 of "), "{fault}");
    }

    #[test]
    fn a_wrong_expectation_of_blocking_is_found() {
        for way in &WAYS {
            let mistaken = Way {
                completes: !way.completes,
                ..*way
            };
            let Err(Failure::Wrong(Fault {
                sentence: fault, ..
            })) = stalled(&mistaken, 3, MINUTE, &|_| ())
            else {
                panic!("{} is found", way.case);
            };
            let expected = match way.completes {
                true => "another thread completed an operation",
                false => "no other thread could complete an operation",
            };
            assert!(fault.contains(expected), "{}: {fault}", way.case);
        }
    }
}
