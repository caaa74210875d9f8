//! What disturbs the workers. The disturber, a thread, moves them between CPUs, sends them signals,
//! aborts their per-CPU sequences and changes how often these may restart. Signal handlers make
//! operations on the round's structure, each on its own lane.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::thread;
use std::time::Duration;

use super::crew::Shared;
use super::lane::{LANES_PER_WORKER, Lane};
use super::{Interruptions, Options, Round, Target, invariant, seed_for};
use crate::system::{self, Signal};

/// What the disturber has done.
#[derive(Debug, Default)]
pub struct Disturbances {
    /// Threads moved to a CPU other than the one they were last moved to.
    pub moves: AtomicU64,
    /// Fences on a CPU, beside those that close gates.
    pub fences: AtomicU64,
}

/// The longest pause between two disturbances: the disturber has to see the end.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Restart limits to switch among: never, once, and the library's default.
const LIMITS: [usize; 3] = [0, 1, atomseq::sequence::DEFAULT_RESTART_LIMIT];

/// Disturbs the workers until the end.
pub fn disturb(target: &Target, options: &Options, shared: &Shared) {
    let (cpus, interruptions) = (&options.cpus[..], target.interruptions);
    let mut rng = fastrand::Rng::with_seed(seed_for(options.seed, target.name, u64::MAX, 0));
    if let Some(cpu) = options.disturber {
        system::move_thread(system::own_number(), &[cpu]);
    }
    let boards: Vec<_> = shared.workers().collect();
    // The CPU that each worker was last moved to; `None` once it may run on all.
    let mut places: Vec<Option<usize>> = vec![None; boards.len()];
    while !shared.is_over() {
        for _ in 0..rng.u32(1..=8) {
            let index = rng.usize(..boards.len());
            let cpu = cpus[rng.usize(..cpus.len())];
            let choice = rng.u32(..100);
            let thread = boards[index].thread.load(Ordering::Relaxed);
            if thread == 0 || !shared.is_disturbed() {
                continue;
            }
            let place = &mut places[index];
            match choice {
                // A storm is mostly signals.
                1.. if interruptions == Interruptions::Storm => {
                    for _ in 0..rng.u32(1..=16) {
                        let _ = system::interrupt(thread, Signal::Sent);
                    }
                }
                0..50 if !options.moves => {}
                0..40 => {
                    if *place != Some(cpu) && system::move_thread(thread, &[cpu]) {
                        let moved = u64::from(place.is_some());
                        shared
                            .disturbances
                            .moves
                            .fetch_add(moved, Ordering::Relaxed);
                        *place = Some(cpu);
                    }
                }
                40..50 => {
                    if system::move_thread(thread, cpus) {
                        *place = None;
                    }
                }
                50..85 => {
                    // Counted where it arrives.
                    let thread = boards[index].signalled.load(Ordering::Relaxed);
                    let _ = system::interrupt(thread, Signal::Sent);
                }
                85..95 => {
                    let fenced = u64::from(system::fence(cpu));
                    shared
                        .disturbances
                        .fences
                        .fetch_add(fenced, Ordering::Relaxed);
                }
                _ => atomseq::set_restart_limit(LIMITS[rng.usize(..LIMITS.len())]),
            }
        }
        // On a machine with few CPUs, the disturber takes CPU time from the workers.
        match (interruptions, shared.slowness()) {
            (Interruptions::Storm, 1) if shared.is_disturbed() => {
                (0..rng.u32(..1_000)).for_each(|_| std::hint::spin_loop());
            }
            (_, slowness) => {
                let pause = Duration::from_micros(rng.u64(20..200)) * slowness;
                thread::sleep(pause.min(LONGEST_PAUSE));
            }
        }
    }
    atomseq::set_restart_limit(atomseq::sequence::DEFAULT_RESTART_LIMIT);
}

/// The lanes of one thread's handlers.
pub type HandlerLanes = [Lane; LANES_PER_WORKER - 1];

/// What this thread's handlers work on.
struct Context<'a> {
    round: &'a dyn Round,
    lanes: &'a [UnsafeCell<Lane>; LANES_PER_WORKER - 1],
}

thread_local! {
    /// Null while handlers have nothing to do. It needs neither initialiser nor destructor, so a
    /// handler may read it.
    static CONTEXT: Cell<*const Context<'static>> = const { Cell::new(ptr::null()) };
}

/// How many signals have reached their handler in this process.
static DELIVERED: AtomicU64 = AtomicU64::new(0);

/// Returns how many signals have reached their handler in this process.
pub fn delivered() -> u64 {
    DELIVERED.load(Ordering::Relaxed)
}

/// Installs the handlers of both signals: through `atomseq::signal`, or as another library would.
pub fn install_handlers(interruptions: Interruptions) {
    system::install_handlers(handle, interruptions.are_managed());
}

/// Calls `work`; while it runs, each signal handler on this thread makes operations on its lane.
pub fn while_interrupted<R>(
    round: &dyn Round,
    lanes: &mut HandlerLanes,
    work: impl FnOnce() -> R,
) -> R {
    // SAFETY: `UnsafeCell` has its content's layout, and only handlers use the lanes while the
    // context is published.
    let lanes =
        unsafe { &*ptr::from_mut(lanes).cast::<[UnsafeCell<Lane>; LANES_PER_WORKER - 1]>() };
    let context = Context { round, lanes };
    let _published = Published::new(&context);
    work()
}

/// Publishes the context to handlers while it lives; a panic ends that, too.
struct Published;

impl Published {
    fn new(context: &Context<'_>) -> Published {
        // The lifetime ends here in name only: `drop` removes the pointer while the context still
        // lives.
        CONTEXT.set(ptr::from_ref(context).cast());
        compiler_fence(Ordering::SeqCst);
        Published
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        CONTEXT.set(ptr::null());
        compiler_fence(Ordering::SeqCst);
    }
}

fn handle(signal: Signal) {
    DELIVERED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: published by this thread, which is inside `work` for as long as the handler runs.
    let Some(context) = (unsafe { CONTEXT.get().as_ref() }) else {
        return;
    };
    if invariant::any() {
        return;
    }
    let lane = context.lanes[signal as usize].get();
    // SAFETY: each signal has its own lane on each thread, and is masked while its handler runs.
    let lane = unsafe { &mut *lane };
    if let Err(violation) = context.round.interrupt(lane) {
        invariant::report(violation);
    }
    lane.rest();
}
