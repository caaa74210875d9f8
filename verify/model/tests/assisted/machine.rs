//! A machine of two CPUs, a kernel that aborts their sections, and threads that may be stopped
//! indefinitely.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64 as Real, Ordering};

use shuttle::rand::Rng;
use shuttle::sync::atomic::AtomicBool;
use shuttle::thread::ThreadId;

mod sections;

pub use sections::{FromValue, NOTHING, Restarts, program, run};

const CPUS: usize = 2;

/// The properties of a thread, set by [`as_thread`].
#[derive(Clone, Copy)]
struct Thread {
    cpu: usize,
    /// Whether it can run sections.
    has_sections: bool,
    /// The steps after which it is stopped indefinitely.
    steps_left: Option<usize>,
}

/// The state of an execution, all threads of which run on one operating-system thread.
struct World {
    /// For each CPU the number of the attempt that runs there: earlier attempts are aborted.
    running: [usize; CPUS],
    generation: u32,
    threads: HashMap<ThreadId, Thread>,
    /// The memory that sections may touch.
    alive: Vec<Range<usize>>,
    /// A flag whose accesses let other threads run.
    turn: Rc<AtomicBool>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Begins an execution.
pub fn anew() {
    let world = World {
        running: [0; CPUS],
        generation: 0,
        threads: HashMap::new(),
        alive: Vec::new(),
        turn: Rc::new(AtomicBool::new(false)),
    };
    WORLD.with(|place| place.replace(Some(world)));
}

fn with<R>(work: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| work(world.as_mut().expect("begun by `anew`")))
}

impl World {
    fn me(&mut self) -> &mut Thread {
        let me = shuttle::thread::current().id();
        self.threads.entry(me).or_insert(Thread {
            cpu: 0,
            has_sections: true,
            steps_left: None,
        })
    }
}

/// The number of events, over all executions of a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    pub aborted: usize,
    pub fenced: usize,
    pub locked: usize,
    pub stopped: usize,
}

thread_local! {
    static EVENTS: Cell<Events> = const {
        Cell::new(Events {
            aborted: 0,
            fenced: 0,
            locked: 0,
            stopped: 0,
        })
    };
}

/// Returns the events since the last call.
pub fn events() -> Events {
    EVENTS.take()
}

fn count(event: impl FnOnce(&mut Events) -> &mut usize) {
    let mut events = EVENTS.get();
    *event(&mut events) += 1;
    EVENTS.set(events);
}

/// The payload that unwinds a stopped thread.
struct Stopped;

/// Runs `work` as a thread that can run sections or not, and that is stopped indefinitely after
/// this number of steps, if one is given. Returns `None` if it was stopped.
///
/// Unlike a thread that is really stopped, it releases its claimant's number, in no step.
pub fn as_thread<R>(
    has_sections: bool,
    steps_left: Option<usize>,
    work: impl FnOnce() -> R,
) -> Option<R> {
    let (mut work, mut result) = (Some(work), None);
    let mut work = || result = work.take().map(|work| work());
    run_as(has_sections, steps_left, &mut work);
    result
}

/// Compiled once for all models of all mutations.
fn run_as(has_sections: bool, steps_left: Option<usize>, work: &mut dyn FnMut()) {
    with(|world| {
        *world.me() = Thread {
            cpu: 0,
            has_sections,
            steps_left,
        };
    });
    let result = catch_unwind(AssertUnwindSafe(work));
    with(|world| world.me().steps_left = None);
    match result {
        Ok(()) => {}
        Err(panic) if panic.is::<Stopped>() => count(|events| &mut events.stopped),
        Err(panic) => resume_unwind(panic),
    }
}

/// Makes the remaining threads those of a fork's child.
pub fn fork() {
    with(|world| world.generation += 1);
}

/// Allows sections to touch this memory from now on.
pub fn mark_alive<T>(place: &T) {
    let start = std::ptr::from_ref(place).addr();
    with(|world| world.alive.push(start..start + size_of::<T>()));
}

/// Forbids it from now on.
pub fn mark_dead<T>(place: &T) {
    let start = std::ptr::from_ref(place).addr();
    with(|world| world.alive.retain(|range| range.start != start));
}

/// Lets other threads run.
pub fn step() {
    // A stopped thread, and a failed model, takes no more steps.
    if std::thread::panicking() {
        return;
    }
    let (turn, is_stopped) = with(|world| {
        let left = &mut world.me().steps_left;
        let is_stopped = *left == Some(0);
        *left = left.map(|left| left.saturating_sub(1));
        (Rc::clone(&world.turn), is_stopped)
    });
    if is_stopped {
        resume_unwind(Box::new(Stopped));
    }
    turn.load(Ordering::SeqCst);
}

/// Lets other threads run first.
pub fn yield_now() {
    if !std::thread::panicking() {
        shuttle::thread::yield_now();
    }
}

/// Returns immediately.
pub fn spin_loop() {}

/// A word whose every access is a step.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicU64(Real);

impl AtomicU64 {
    pub const fn new(value: u64) -> AtomicU64 {
        AtomicU64(Real::new(value))
    }

    /// # Safety
    ///
    /// The contract of the function that it replaces; that the word is alive is checked.
    pub unsafe fn from_ptr<'a>(word: *mut u64) -> &'a AtomicU64 {
        check(word.addr());
        // SAFETY: the caller's promise; the same layout.
        unsafe { &*word.cast::<AtomicU64>() }
    }

    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    pub fn load(&self, _order: Ordering) -> u64 {
        step();
        self.0.load(Ordering::SeqCst)
    }

    pub fn store(&self, value: u64, _order: Ordering) {
        step();
        self.0.store(value, Ordering::SeqCst);
    }

    pub fn swap(&self, value: u64, _order: Ordering) -> u64 {
        step();
        self.0.swap(value, Ordering::SeqCst)
    }

    pub fn compare_exchange(
        &self,
        old: u64,
        new: u64,
        _success: Ordering,
        _failure: Ordering,
    ) -> Result<u64, u64> {
        step();
        self.0
            .compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
    }
}

/// Panics if a section touches memory that is no longer alive.
fn check(address: usize) {
    let is_alive = with(|world| world.alive.iter().any(|range| range.contains(&address)));
    assert!(is_alive, "touches memory that is not alive");
}

/// Returns the CPU on which the thread runs; it may have moved there just now.
pub fn current_cpu() -> usize {
    step();
    let moves = shuttle::rand::thread_rng().gen_bool(0.3);
    with(|world| {
        let me = world.me();
        me.cpu = (me.cpu + usize::from(moves)) % CPUS;
        me.cpu
    })
}

/// Ends the section that runs on the CPU.
pub fn membarrier_rseq(cpu: usize) {
    step();
    count(|events| &mut events.fenced);
    with(|world| world.running[cpu] += 1);
}

pub fn fence_all() {
    (0..CPUS).for_each(membarrier_rseq);
}

pub fn generation() -> u32 {
    with(|world| world.generation)
}

/// A thread that cannot run sections cannot be registered.
pub fn register_this_thread() {}

/// There are no signals here whose handlers could end the thread, so it is not stopped from here
/// on. A thread that cannot run sections may still be left behind by a fork.
pub struct SignalsBlocked;

impl SignalsBlocked {
    pub fn enter() -> SignalsBlocked {
        count(|events| &mut events.locked);
        with(|world| {
            let me = world.me();
            if me.has_sections {
                me.steps_left = None;
            }
        });
        SignalsBlocked
    }
}
