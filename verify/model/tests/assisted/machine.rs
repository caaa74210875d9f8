//! A machine of two CPUs, a kernel that aborts the sections there, and threads that may be stopped
//! for ever.

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

pub use sections::{NOTHING, Restarts, Told, program, run};

const CPUS: usize = 2;

/// How a thread is: from [`as_thread`].
#[derive(Clone, Copy)]
struct Thread {
    cpu: usize,
    /// Can it run sections?
    has_sections: bool,
    /// After so many steps it is stopped for ever.
    steps_left: Option<usize>,
}

/// What an execution has, all threads of which run on one.
struct World {
    /// For each CPU the attempt that runs there, by number: those that began before are aborted.
    running: [usize; CPUS],
    generation: u32,
    threads: HashMap<ThreadId, Thread>,
    /// Where sections may touch memory.
    alive: Vec<Range<usize>>,
    /// To let others run.
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

/// How often what happened, over all executions of a model.
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

/// Since this was last asked.
pub fn events() -> Events {
    EVENTS.take()
}

fn count(event: impl FnOnce(&mut Events) -> &mut usize) {
    let mut events = EVENTS.get();
    *event(&mut events) += 1;
    EVENTS.set(events);
}

/// What unwinds a thread that is stopped.
struct Stopped;

/// Does something as a thread that can run sections or not, and is stopped for ever after so many
/// steps; `None`: it was.
///
/// Unlike one that is stopped, it gives its claimant's number back, in no step.
pub fn as_thread<R>(
    has_sections: bool,
    steps_left: Option<usize>,
    work: impl FnOnce() -> R,
) -> Option<R> {
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
        Ok(result) => Some(result),
        Err(panic) if panic.is::<Stopped>() => {
            count(|events| &mut events.stopped);
            None
        }
        Err(panic) => resume_unwind(panic),
    }
}

/// Whoever is left is in the child of a fork.
pub fn fork() {
    with(|world| world.generation += 1);
}

/// Sections may touch this from now on.
pub fn is_alive<T>(place: &T) {
    let start = std::ptr::from_ref(place).addr();
    with(|world| world.alive.push(start..start + size_of::<T>()));
}

/// And no longer.
pub fn is_gone<T>(place: &T) {
    let start = std::ptr::from_ref(place).addr();
    with(|world| world.alive.retain(|range| range.start != start));
}

/// Others may run.
pub fn step() {
    // A thread that is stopped, or a model that has failed, takes no more steps.
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

/// Others run first.
pub fn yield_now() {
    if !std::thread::panicking() {
        shuttle::thread::yield_now();
    }
}

/// Looks again at once.
pub fn spin_loop() {}

/// A word whose every use is a step.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicU64(Real);

impl AtomicU64 {
    pub const fn new(value: u64) -> AtomicU64 {
        AtomicU64(Real::new(value))
    }

    /// # Safety
    ///
    /// As for the one that it stands for; that it lives is checked.
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

/// Whoever touches what is gone is found out.
fn check(address: usize) {
    let is_alive = with(|world| world.alive.iter().any(|range| range.contains(&address)));
    assert!(is_alive, "touches memory that is gone");
}

/// On which CPU the thread is; it may have come there just now.
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

/// Who cannot run sections, cannot be helped.
pub fn register_this_thread() {}

/// There are no signals here, by whose handlers a thread might end itself: so from here on it does
/// not. One that cannot run sections may be left behind by a fork all the same.
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
