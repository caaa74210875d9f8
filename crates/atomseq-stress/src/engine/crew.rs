//! The threads of a target: a director that makes rounds, and workers that run them; and what
//! these threads share with the disturber and the watch.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::disturb::{self, Disturbances, HandlerLanes, while_interrupted};
use super::invariant::{self, Violation};
use super::lane::{Board, LANES_PER_WORKER, Lane};
use super::{Options, Round, Sabotage, Setting, Target, seed_for};
use crate::needs::Granted;
use crate::system::{self, Timer};

/// What the director is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Makes a round.
    Preparing,
    /// Waits while the workers work.
    Working,
    /// Makes the final check of a round.
    Checking,
}

/// What director, workers, disturber and watch share.
pub struct Shared {
    /// One board a lane.
    pub boards: Vec<Arc<CachePadded<Board>>>,
    /// The number of the current round, from 0.
    pub round: AtomicU64,
    /// What the disturber has done so far.
    pub disturbances: Disturbances,
    phase: AtomicU8,
    over: AtomicBool,
    calm: AtomicBool,
    /// The workers' timers, with their initial periods. No worker takes the lock: signals could
    /// interrupt it indefinitely while it holds the lock.
    timers: Mutex<Vec<(Timer, Duration)>>,
    /// By how much all timer periods and pauses between signals are multiplied.
    slowness: AtomicU32,
}

impl Shared {
    /// Returns the shared state of so many workers.
    pub fn new(workers: usize) -> Shared {
        Shared {
            boards: (0..workers * LANES_PER_WORKER)
                .map(|_| Arc::default())
                .collect(),
            round: AtomicU64::new(0),
            disturbances: Disturbances::default(),
            phase: AtomicU8::new(Phase::Preparing as u8),
            over: AtomicBool::new(false),
            calm: AtomicBool::new(false),
            timers: Mutex::default(),
            slowness: AtomicU32::new(1),
        }
    }

    fn timers(&self) -> MutexGuard<'_, Vec<(Timer, Duration)>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a timer that interrupts a worker while workers work, if the system has one left.
    fn add_timer(&self, thread: i32, period: Duration) {
        let timer = Timer::start(thread, period);
        let mut timers = self.timers();
        timers.extend(timer.map(|timer| (timer, period)));
        self.set_timers(&timers);
    }

    /// Arms the timers if workers are to be interrupted now, otherwise disarms them.
    fn set_timers(&self, timers: &[(Timer, Duration)]) {
        // A period of zero disarms a timer.
        let factor = match self.is_disturbed() {
            true => self.slowness(),
            false => 0,
        };
        for (timer, period) in timers {
            timer.set(*period * factor);
        }
    }

    /// Returns whether workers are interrupted now: while they work, unless [`Shared::calm`] has
    /// ended that. During the final check, timers would only take CPU time from it.
    pub fn is_disturbed(&self) -> bool {
        // Relaxed: a hint to the disturber; timers are set under the lock.
        self.phase() == Phase::Working && !self.calm.load(Ordering::Relaxed)
    }

    /// Returns by how much timer periods and pauses between signals are multiplied.
    pub fn slowness(&self) -> u32 {
        // Relaxed: a number on its own.
        self.slowness.load(Ordering::Relaxed)
    }

    /// Interrupts the workers less often from now on: a thread that is interrupted again before it
    /// has completed an operation makes no progress.
    pub fn slow_down(&self) {
        /// The factor of one call, and the max of all calls together.
        const STEP: u32 = 4;
        const MAX: u32 = 1 << 16;
        let timers = self.timers();
        let slowness = (self.slowness() * STEP).min(MAX);
        self.slowness.store(slowness, Ordering::Relaxed);
        self.set_timers(&timers);
    }

    /// Stops timers and signals, or starts them again.
    pub fn calm(&self, calm: bool) {
        let timers = self.timers();
        self.calm.store(calm, Ordering::Relaxed);
        self.set_timers(&timers);
    }

    /// Returns the boards of the workers' own lanes.
    pub fn workers(&self) -> impl Iterator<Item = &Board> {
        self.boards
            .iter()
            .step_by(LANES_PER_WORKER)
            .map(|board| &***board)
    }

    /// Returns what the director is doing.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Preparing,
            1 => Phase::Working,
            _ => Phase::Checking,
        }
    }

    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        let timers = self.timers();
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.set_timers(&timers);
    }

    /// Asks all threads to end.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Returns whether all threads were asked to end, or an invariant was violated.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || invariant::any()
    }

    /// Returns the figures so far, but for those that only the director knows.
    pub fn figures(&self) -> Figures {
        Figures {
            rounds: self.round.load(Ordering::Relaxed),
            operations: self.boards.iter().map(|board| board.operations()).sum(),
            worked: self.workers().map(Board::operations).sum(),
            moves: self.disturbances.moves.load(Ordering::Relaxed),
            fences: self.disturbances.fences.load(Ordering::Relaxed),
            slowness: self.slowness(),
            ..Figures::default()
        }
    }
}

/// What was done to a target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Rounds completed, their final checks included.
    pub rounds: u64,
    /// Operations begun, by workers and their signal handlers.
    pub operations: u64,
    /// Operations begun by workers.
    pub worked: u64,
    /// Threads moved to a CPU other than the one they were last moved to.
    pub moves: u64,
    /// Fences on a CPU, beside those that close gates.
    pub fences: u64,
    /// Signals that reached their handler.
    pub signals: u64,
    /// By how much timer periods and pauses between signals were multiplied in the end.
    pub slowness: u32,
    /// How many gates were closed, at least.
    pub closings: u64,
    /// What the target itself counts.
    pub counted: u64,
    /// What the system granted and refused.
    pub granted: Granted,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} rounds, {} operations by workers, {} by handlers; {} signals, {} moves, {} fences",
            self.rounds,
            self.worked,
            self.operations - self.worked,
            self.signals,
            self.moves,
            self.fences
        )
    }
}

/// A worker's lanes.
struct WorkerLanes {
    own: Lane,
    /// `None` only while a worker's guests have them.
    handlers: Option<Box<HandlerLanes>>,
}

struct Job {
    round: Arc<dyn Round>,
    lanes: WorkerLanes,
}

/// Runs rounds until the end; reports violations to [`invariant::report`].
///
/// # Errors
///
/// If the system refuses a thread.
pub fn direct(
    target: &'static Target,
    options: &Options,
    shared: &Arc<Shared>,
) -> io::Result<Figures> {
    let mut figures = Figures::default();
    let signals_before = disturb::delivered();
    let granted_before = Granted::now();
    let (done, results) = channel();
    let mut jobs = Vec::new();
    let mut workers = Vec::new();
    for number in 0..options.workers {
        let (job, receiver) = channel();
        let (started, start) = channel();
        let worker = {
            let (done, shared) = (done.clone(), shared.clone());
            move || work(target, number, &shared, started, &receiver, &done)
        };
        workers.push(
            thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(worker)?,
        );
        jobs.push(job);
        if let (Ok(thread), Some(period)) = (start.recv(), target.interruptions.period(number)) {
            shared.add_timer(thread, period);
        }
    }
    let disturber = {
        let (shared, options) = (shared.clone(), options.clone());
        thread::Builder::new()
            .name("disturber".to_string())
            .spawn(move || disturb::disturb(target, &options, &shared))?
    };

    while !shared.is_over() || figures.rounds == 0 && !invariant::any() {
        round(target, options, shared, &jobs, &results, &mut figures);
        shared.round.fetch_add(1, Ordering::Relaxed);
    }

    shared.end();
    // A panic was reported where it happened.
    let _ = disturber.join();
    shared.timers().clear();
    drop(jobs);
    for worker in workers {
        let _ = worker.join();
    }
    Ok(Figures {
        rounds: figures.rounds,
        closings: figures.closings,
        counted: figures.counted,
        signals: disturb::delivered() - signals_before,
        granted: Granted::now().since(granted_before),
        ..shared.figures()
    })
}

/// Runs one round.
fn round(
    target: &Target,
    options: &Options,
    shared: &Shared,
    jobs: &[Sender<Job>],
    results: &Receiver<(usize, WorkerLanes)>,
    figures: &mut Figures,
) {
    shared.enter(Phase::Preparing);
    let number = shared.round.load(Ordering::Relaxed);
    let lanes = options.workers * LANES_PER_WORKER;
    let seed = |part: u64| seed_for(options.seed, target.name, number, part);
    let mut setting = Setting {
        rng: fastrand::Rng::with_seed(seed(0)),
        lanes,
        salt: seed(1),
        sabotage: options.sabotage,
    };
    let mut round = (target.round)(&mut setting);

    shared.enter(Phase::Working);
    for (worker, job) in jobs.iter().enumerate() {
        let lane = |handler: usize| {
            let number = worker * LANES_PER_WORKER + handler;
            let watched = match handler {
                0 => watched(worker, lanes),
                _ => 0,
            };
            let board = shared.boards[number].clone();
            Lane::new(number, seed(2 + number as u64), watched, board)
        };
        let mut lanes = WorkerLanes {
            own: lane(0),
            handlers: Some(Box::new([lane(1), lane(2)])),
        };
        if worker == 0 {
            lanes.own.sabotage = options.sabotage;
        }
        let round = round.clone();
        // A worker lives until its channel is closed.
        let _ = job.send(Job { round, lanes });
    }
    let mut lanes: Vec<(usize, WorkerLanes)> = results.iter().take(jobs.len()).collect();
    shared.enter(Phase::Checking);
    lanes.sort_by_key(|(worker, _)| *worker);
    let mut lanes: Vec<Lane> = lanes
        .into_iter()
        .flat_map(|(_, lanes)| {
            let handlers = lanes.handlers.into_iter().flat_map(|lanes| *lanes);
            std::iter::once(lanes.own).chain(handlers)
        })
        .collect();

    if invariant::any() {
        return;
    }
    let checked = match Arc::get_mut(&mut round) {
        Some(round) => {
            catch_unwind(AssertUnwindSafe(|| round.finish(&mut lanes))).unwrap_or(Err(PANICKED))
        }
        None => Err(Violation::new("a round was still in use after its end")),
    };
    match checked {
        Ok(()) => figures.rounds += 1,
        Err(violation) => invariant::report(violation),
    }
    figures.closings += lanes.iter().map(|lane| lane.closings).sum::<u64>();
    figures.counted += lanes.iter().map(|lane| lane.counted).sum::<u64>();
}

const PANICKED: Violation = Violation::new("an operation panicked: its message is above");

/// Returns for how many (CPU, lane) pairs a worker checks the order of values. Only four workers
/// do, and only where the memory for it is small.
fn watched(worker: usize, lanes: usize) -> usize {
    const MAX: usize = 1 << 16;
    let pairs = atomseq::status().features().cpus * lanes;
    if worker < 4 && pairs <= MAX { pairs } else { 0 }
}

/// Runs a worker: sends its thread number to `started`, then runs jobs until their channel closes.
fn work(
    target: &Target,
    number: usize,
    shared: &Shared,
    started: Sender<i32>,
    jobs: &Receiver<Job>,
    done: &Sender<(usize, WorkerLanes)>,
) {
    let thread = system::own_number();
    let board = &shared.boards[number * LANES_PER_WORKER];
    board.thread.store(thread, Ordering::Relaxed);
    board.signalled.store(thread, Ordering::Relaxed);
    // The director lives as long as the process.
    let _ = started.send(thread);
    for Job { round, mut lanes } in jobs {
        let steps = || run_steps(&*round, &mut lanes, target.steps, shared);
        if catch_unwind(AssertUnwindSafe(steps)).is_err() {
            invariant::report(PANICKED);
        }
        drop(round);
        if done.send((number, lanes)).is_err() {
            break;
        }
    }
    board.thread.store(0, Ordering::Relaxed);
    board.signalled.store(0, Ordering::Relaxed);
}

/// Runs a worker's part of a round.
fn run_steps(round: &dyn Round, lanes: &mut WorkerLanes, steps: u32, shared: &Shared) {
    /// So many steps are made even after the time is up: what a short run has tried does not depend
    /// on the machine's speed.
    const LEAST: u32 = 1_024;
    let WorkerLanes { own, handlers } = lanes;
    let run = |own: &mut Lane| {
        for step in 0..steps {
            if invariant::any() || step >= LEAST && shared.is_over() {
                break;
            }
            own.pause();
            inject_fault(own);
            if let Err(violation) = round.step(own) {
                invariant::report(violation);
                break;
            }
        }
        own.rest();
    };
    match handlers {
        Some(handlers) if !round.has_guests() => while_interrupted(round, handlers, || run(own)),
        _ => {
            own.guests = handlers.take();
            run(own);
            *handlers = own.guests.take();
        }
    }
}

/// Injects the faults that need no help from the target.
fn inject_fault(own: &mut Lane) {
    if own.inject(Sabotage::Hang) {
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    }
    if own.inject(Sabotage::Panic) {
        panic!("this worker panics on request");
    }
    if own.inject(Sabotage::Crash) {
        std::process::abort();
    }
}
