//! The threads of a target: a director that makes rounds, and workers that go through them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use super::interrupts::{self, HandlerLanes, while_interrupted};
use super::lane::{LANES_PER_WORKER, Lane};
use super::law::{self, Broken};
use super::sabotage::Sabotage;
use super::shared::{Figures, Phase, Shared};
use super::tormentor;
use super::{Interruptions, Round, Setting, Target, seed_for};
use crate::torture::needs::Granted;
use crate::torture::system;

/// How a target is run.
#[derive(Clone, Debug)]
pub struct Orders {
    /// All choices follow from it.
    pub seed: u64,
    /// How many workers there are.
    pub workers: usize,
    /// The CPUs they may be moved to.
    pub cpus: Vec<usize>,
    /// A fault to inject, once a round.
    pub sabotage: Option<Sabotage>,
}

/// A worker's lanes.
struct Hands {
    own: Lane,
    /// `None` only while a worker's guests have them.
    handlers: Option<Box<HandlerLanes>>,
}

struct Job {
    round: Arc<dyn Round>,
    hands: Hands,
}

/// Runs rounds until there is an end; broken laws go to [`law::report`].
///
/// # Errors
///
/// If the system refuses a thread.
pub fn direct(
    target: &'static Target,
    orders: &Orders,
    shared: &Arc<Shared>,
) -> io::Result<Figures> {
    let mut figures = Figures::default();
    let signals_before = interrupts::delivered();
    let granted_before = Granted::now();
    let (done, results) = channel();
    let mut jobs = Vec::new();
    let mut workers = Vec::new();
    for number in 0..orders.workers {
        let (job, receiver) = channel();
        let (is_there, arrival) = channel();
        let worker = {
            let (done, shared) = (done.clone(), shared.clone());
            move || work(target, number, &shared, is_there, &receiver, &done)
        };
        workers.push(
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(worker)?,
        );
        jobs.push(job);
        if let (Ok(thread), Some(period)) = (arrival.recv(), period(target.interruptions, number)) {
            shared.start_timer(thread, period);
        }
    }
    let tormentor = {
        let (shared, orders) = (shared.clone(), orders.clone());
        let seed = seed_for(orders.seed, target.name, u64::MAX, 0);
        thread::Builder::new()
            .name("tormentor".to_string())
            .spawn(move || tormentor::torment(&shared, &orders.cpus, target.interruptions, seed))?
    };

    while !shared.is_over() || figures.rounds == 0 && !law::any() {
        round(target, orders, shared, &jobs, &results, &mut figures);
        shared.round.fetch_add(1, Ordering::Relaxed);
    }

    shared.end();
    // A thread that panicked has been reported where it did; without a result there is nothing to
    // add.
    figures.torments = tormentor.join().unwrap_or_default();
    shared.stop_timers();
    drop(jobs);
    for worker in workers {
        let _ = worker.join();
    }
    figures.operations = shared.operations();
    figures.signals = interrupts::delivered() - signals_before;
    figures.slowness = shared.slowness();
    figures.granted = Granted::now().since(granted_before);
    Ok(figures)
}

/// One round.
fn round(
    target: &Target,
    orders: &Orders,
    shared: &Shared,
    jobs: &[Sender<Job>],
    results: &Receiver<(usize, Hands)>,
    figures: &mut Figures,
) {
    shared.enter(Phase::Preparing);
    let number = shared.round.load(Ordering::Relaxed);
    let lanes = orders.workers * LANES_PER_WORKER;
    let seed = |part: u64| seed_for(orders.seed, target.name, number, part);
    let mut setting = Setting {
        rng: fastrand::Rng::with_seed(seed(0)),
        lanes,
        salt: seed(1),
        sabotage: orders.sabotage,
    };
    let mut round = (target.round)(&mut setting);

    shared.enter(Phase::Working);
    for (worker, job) in jobs.iter().enumerate() {
        let lane = |handler: usize| {
            let number = worker * LANES_PER_WORKER + handler;
            let watched = if handler == 0 {
                watched(worker, lanes)
            } else {
                0
            };
            Lane::new(
                number,
                seed(2 + number as u64),
                watched,
                shared.boards[number].clone(),
            )
        };
        let mut hands = Hands {
            own: lane(0),
            handlers: Some(Box::new([lane(1), lane(2)])),
        };
        if worker == 0 {
            hands.own.sabotage = orders.sabotage;
        }
        // A worker lives until its jobs end.
        let _ = job.send(Job {
            round: round.clone(),
            hands,
        });
    }
    let mut lanes: Vec<(usize, Hands)> = results.iter().take(jobs.len()).collect();
    lanes.sort_by_key(|(worker, _)| *worker);
    let mut lanes: Vec<Lane> = lanes
        .into_iter()
        .flat_map(|(_, hands)| {
            let handlers = hands.handlers.into_iter().flat_map(|lanes| *lanes);
            std::iter::once(hands.own).chain(handlers)
        })
        .collect();

    if law::any() {
        return;
    }
    shared.enter(Phase::Settling);
    let settled = match Arc::get_mut(&mut round) {
        Some(round) => {
            catch_unwind(AssertUnwindSafe(|| round.finish(&mut lanes))).unwrap_or(Err(PANICKED))
        }
        None => Err(Broken::new("a round was still in use after its end")),
    };
    match settled {
        Ok(()) => figures.rounds += 1,
        Err(broken) => law::report(broken),
    }
    figures.closings += lanes.iter().map(|lane| lane.closings).sum::<u64>();
    figures.counted += lanes.iter().map(|lane| lane.counted).sum::<u64>();
}

const PANICKED: Broken = Broken::new("an operation panicked: its message is above");

/// How many (CPU, lane) pairs a worker watches for order: a few workers do, where the memory for it
/// is small.
fn watched(worker: usize, lanes: usize) -> usize {
    const MAX: usize = 1 << 16;
    let pairs = atomseq::status().features().cpus * lanes;
    if worker < 4 && pairs <= MAX { pairs } else { 0 }
}

/// How often a worker's timer interrupts it, if it has one.
fn period(interruptions: Interruptions, worker: usize) -> Option<Duration> {
    // Periods differ, so that no two workers are interrupted in step.
    let microseconds = match interruptions {
        Interruptions::Sent => None,
        Interruptions::Timed | Interruptions::Managed => Some(150 + 37 * (worker as u64 % 8)),
        Interruptions::Storm => Some(50 + 3 * (worker as u64 % 8)),
    };
    microseconds.map(Duration::from_micros)
}

/// A worker's life. It says when it is there, and which thread it is.
fn work(
    target: &Target,
    number: usize,
    shared: &Shared,
    is_there: Sender<i32>,
    jobs: &Receiver<Job>,
    done: &Sender<(usize, Hands)>,
) {
    let thread = system::own_number();
    let board = &shared.boards[number * LANES_PER_WORKER];
    board.thread.store(thread, Ordering::Relaxed);
    board.signalled.store(thread, Ordering::Relaxed);
    // The director only goes away with the process.
    let _ = is_there.send(thread);
    for Job { round, mut hands } in jobs {
        let steps = || go_through(&*round, &mut hands, target.steps, shared);
        if catch_unwind(AssertUnwindSafe(steps)).is_err() {
            law::report(PANICKED);
        }
        drop(round);
        if done.send((number, hands)).is_err() {
            break;
        }
    }
    board.thread.store(0, Ordering::Relaxed);
    board.signalled.store(0, Ordering::Relaxed);
}

/// A worker's part in a round.
fn go_through(round: &dyn Round, hands: &mut Hands, steps: u32, shared: &Shared) {
    /// So many steps are made even where time is up.
    const LEAST: u32 = 64;
    let Hands { own, handlers } = hands;
    let go = |own: &mut Lane| {
        for step in 0..steps {
            if law::any() || step >= LEAST && shared.is_over() {
                break;
            }
            own.pause();
            strike(own);
            if let Err(broken) = round.step(own) {
                law::report(broken);
                break;
            }
        }
        own.rest();
    };
    match handlers {
        Some(handlers) if !round.has_guests() => while_interrupted(round, handlers, || go(own)),
        _ => {
            own.guests = handlers.take();
            go(own);
            *handlers = own.guests.take();
        }
    }
}

/// Commits the faults that need no target.
fn strike(own: &mut Lane) {
    if own.strikes(Sabotage::Hang) {
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }
    if own.strikes(Sabotage::Panic) {
        panic!("this worker was told to panic");
    }
    if own.strikes(Sabotage::Crash) {
        std::process::abort();
    }
}
