//! What interrupts the workers: signals, and being moved to another CPU.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

pub use verify_support::cpus::allowed as cpus;
use verify_support::signals::install_short;
use verify_support::{cpus, threads};

use crate::ledger::Handlers;
use crate::structures::Structures;

/// More workers than any trial has.
pub const MAX_WORKERS: usize = 8;

/// What a handler can reach.
pub struct Stage {
    /// The structures, shared by all.
    pub structures: Structures,
    /// A thread's handlers keep their own books.
    pub handlers: [Handlers; MAX_WORKERS],
}

static STAGE: OnceLock<Stage> = OnceLock::new();
static SIGNALS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set up by the compiler, so that a handler may read it. 0: no worker.
    static WORKER: Cell<usize> = const { Cell::new(0) };
}

/// The stage, set up by the first call.
pub fn stage() -> &'static Stage {
    STAGE.get_or_init(|| Stage {
        structures: Structures::new(),
        handlers: Default::default(),
    })
}

/// Handlers of the signal that `interrupt` sends use the structures.
pub fn install() {
    stage();
    install_short(libc::SIGUSR1, handle, libc::SA_RESTART);
}

extern "C" fn handle(_signal: libc::c_int) {
    let (Some(stage), worker @ 1..) = (STAGE.get(), WORKER.get()) else {
        return;
    };
    let number = SIGNALS.fetch_add(1, Ordering::Relaxed);
    let handlers = &stage.handlers[worker - 1];
    let value = (1 << 62) + number * 32;
    stage.structures.handle(handlers, value);
}

/// How many handlers ran.
pub fn signals() -> u64 {
    SIGNALS.load(Ordering::Relaxed)
}

/// A worker's thread, for those who interrupt it.
#[derive(Debug, Default)]
pub struct Victim(AtomicI32);

impl Victim {
    /// Makes the calling thread the victim, as this worker.
    pub fn volunteer(&self, worker: usize) {
        WORKER.set(worker + 1);
        self.0.store(threads::this_thread(), Ordering::Release);
    }

    /// No more interruptions, please.
    pub fn resign(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Sends a signal.
    pub fn interrupt(&self) {
        let thread = self.0.load(Ordering::Acquire);
        if thread != 0 {
            // If the thread has exited meanwhile, nothing happens.
            threads::signal(thread, libc::SIGUSR1);
        }
    }

    /// Moves it to one of the CPUs. `false`: it was not there, or not let.
    pub fn move_to(&self, cpus: &[usize]) -> bool {
        let thread = self.0.load(Ordering::Acquire);
        thread != 0 && cpus::restrict(thread, cpus)
    }
}
