//! What the kernel threads of a runtime share.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    compiler_fence,
};
use std::sync::OnceLock;

use super::Options;
use super::lending::Lending;
use super::linux::{self, Nanoseconds, Patience, Threads};
use super::list::Stack;
use super::role;
use super::task::{Header, Task};
use super::worker::{ASLEEP, AWAKE, Worker};

/// What the kernel threads of a runtime share.
pub(super) struct Shared {
    pub options: Options,
    /// The options' slice.
    pub slice: Nanoseconds,
    pub workers: Box<[Worker]>,
    /// The kernel threads, of which the first `created` exist.
    pub carriers: Box<[OnceLock<Carrier>]>,
    pub created: AtomicUsize,
    /// The number of kernel threads without work.
    pub spares: AtomicIsize,
    /// The number of workers without a kernel thread.
    pub orphans: AtomicUsize,
    /// The number of workers that wait for work.
    pub sleeping: AtomicUsize,
    /// Threads that have not finished, and one more while the runtime is not dropped.
    pub live: AtomicUsize,
    /// 1 once `live` is 0.
    pub ended: AtomicU32,
    /// The worker of the next thread that is spawned from outside.
    pub turn: AtomicUsize,
    /// Of those that wait outside.
    pub patience: Patience,
    /// Whether the monitor sleeps, and until what: UNTIL_WORK, UNTIL_ENTERED.
    pub monitor: AtomicU32,
    /// 1 when more kernel threads are needed.
    pub wanted: AtomicU32,
    /// Entries of which a scheduler had the last reference, to be freed by a thread.
    pub unused: Stack,
    pub threads: Threads,
}

/// A kernel thread that runs closures.
pub(super) struct Carrier {
    pub index: u32,
    /// Its number in the kernel.
    pub number: AtomicI32,
    /// The reasons for which it is woken: GRANT, POKE.
    pub word: AtomicU32,
    /// With GRANT: the worker, the value of its `owner`, and a new thread to run or null.
    pub granted_worker: AtomicU32,
    pub granted_value: AtomicU64,
    pub granted_task: AtomicPtr<Header>,
    /// The worker whose role it has, or had last, and the value of the worker's `owner` then.
    pub worker: AtomicU32,
    pub value: AtomicU64,
    /// Whether it may be preempted: it is in a closure.
    pub is_preemptible: AtomicBool,
    /// Whether a signal came while it could not be preempted.
    pub has_missed: AtomicBool,
    /// The `value` at which the monitor wants it preempted.
    pub tick: AtomicU64,
    /// Whether its closure waits because it was preempted.
    pub is_preempted: AtomicBool,
    /// The `value` with which its closure went on after it was preempted, the time of that, and the
    /// CPU time that the kernel thread had used then.
    pub resumed: AtomicU64,
    pub since: AtomicU64,
    pub used: AtomicU64,
    /// The thread that it runs. The frame that runs it owns a reference.
    pub current: AtomicPtr<Header>,
    /// What may run on the stack of its current thread, which waits for it.
    pub lending: Lending,
    /// The CPU that it is pinned to.
    pub cpu: AtomicU32,
    /// Where its stack begins.
    pub top: AtomicUsize,
    pub shared: *const Shared,
}

// SAFETY: the pointer is to what contains it, and is only read.
unsafe impl Send for Carrier {}
// SAFETY: the pointer is only read; the rest is atomic.
unsafe impl Sync for Carrier {}

/// Of a monitor that sleeps until there is work.
pub(super) const UNTIL_WORK: u32 = 1;
/// Of one that sleeps for half a slice, unless a worker enters another closure than one that goes
/// on after its preemption. Others may block soon.
pub(super) const UNTIL_ENTERED: u32 = 2;

/// The carrier has a role, or a thread of its own to go on with.
pub(super) const GRANT: u32 = 1;
/// There may be something to do.
pub(super) const POKE: u32 = 2;

thread_local! {
    static CARRIER: Cell<*const Carrier> = const { Cell::new(ptr::null()) };
}

impl Carrier {
    pub fn new(index: u32, shared: *const Shared) -> Carrier {
        Carrier {
            index,
            number: AtomicI32::new(0),
            word: AtomicU32::new(0),
            granted_worker: AtomicU32::new(0),
            granted_value: AtomicU64::new(0),
            granted_task: AtomicPtr::new(ptr::null_mut()),
            worker: AtomicU32::new(0),
            value: AtomicU64::new(0),
            is_preemptible: AtomicBool::new(false),
            has_missed: AtomicBool::new(false),
            tick: AtomicU64::new(role::NEVER),
            is_preempted: AtomicBool::new(false),
            resumed: AtomicU64::new(role::NEVER),
            since: AtomicU64::new(0),
            used: AtomicU64::new(0),
            current: AtomicPtr::new(ptr::null_mut()),
            lending: Lending::new(),
            cpu: AtomicU32::new(u32::MAX),
            top: AtomicUsize::new(0),
            shared,
        }
    }

    /// Returns the calling kernel thread's, if it is one of a runtime. A handler may call it.
    #[inline]
    pub fn get<'a>() -> Option<&'a Carrier> {
        // SAFETY: set by the kernel thread itself, which keeps the runtime's memory until it
        // resets this.
        unsafe { CARRIER.get().as_ref() }
    }

    /// Makes this the calling kernel thread's.
    pub fn set(&self) {
        CARRIER.set(self);
    }

    /// Makes the calling kernel thread one of no runtime, for the destructors of its thread-locals.
    pub fn reset() {
        CARRIER.set(ptr::null());
    }

    /// Lets handlers preempt the calling kernel thread. If a signal came too early, sends it again:
    /// one that is to suspend the thread comes only once.
    #[inline]
    pub fn allow_preemption(&self) {
        compiler_fence(SeqCst);
        self.is_preemptible.store(true, Relaxed);
        compiler_fence(SeqCst);
        if self.has_missed.load(Relaxed) {
            self.has_missed.store(false, Relaxed);
            linux::send(self.number.load(SeqCst), self.shared().options.signal);
        }
    }

    #[inline]
    pub fn shared(&self) -> &Shared {
        // SAFETY: a carrier is part of it.
        unsafe { &*self.shared }
    }

    /// Returns the running thread, if there is one.
    #[inline]
    pub fn current(&self) -> Option<&Header> {
        // SAFETY: the frame that runs it has a reference.
        unsafe { self.current.load(Relaxed).as_ref() }
    }

    /// Wakes it for a reason.
    pub fn wake(&self, reason: u32) {
        self.word.fetch_or(reason, SeqCst);
        linux::wake(&self.word);
    }
}

impl Shared {
    /// Returns the indices of all workers, this one first.
    pub fn workers_from(&self, first: u32) -> impl Iterator<Item = usize> {
        let count = self.workers.len();
        (0..count).map(move |offset| (first as usize + offset) % count)
    }

    #[inline]
    pub fn worker(&self, index: u32) -> &Worker {
        &self.workers[index as usize]
    }

    /// Returns a kernel thread that exists.
    #[inline]
    pub fn carrier(&self, index: u32) -> &Carrier {
        self.carriers[index as usize]
            .get()
            .expect("an index names a carrier that exists")
    }

    /// Returns whether all threads have finished and the runtime was dropped.
    pub fn is_over(&self) -> bool {
        self.live.load(SeqCst) == 0
    }

    /// Counts one fewer of `live`. The last one ends the kernel threads.
    pub fn release(&self) {
        if self.live.fetch_sub(1, SeqCst) == 1 {
            self.end();
        }
    }

    /// Wakes all kernel threads, which then see that all is over.
    pub fn end(&self) {
        self.ended.store(1, SeqCst);
        linux::wake_all(&self.ended);
        for carrier in self.carriers.iter().filter_map(OnceLock::get) {
            carrier.wake(POKE);
        }
        self.monitor.store(0, SeqCst);
        linux::wake(&self.monitor);
        self.wanted.store(1, SeqCst);
        linux::wake(&self.wanted);
    }

    /// Pushes a thread that has become NEW or READY, and notifies a worker or the monitor.
    pub fn push(&self, task: Task) {
        // Relaxed: published by the change of the state that lets the caller push.
        let worker = task.worker.load(Relaxed);
        self.worker(worker).push(task);
        self.notify(worker);
    }

    /// Wakes a worker that sleeps, this one first, to look at what was pushed, or else the monitor.
    pub fn notify(&self, worker: u32) {
        core::sync::atomic::fence(SeqCst);
        if self.sleeping.load(SeqCst) > 0 && self.workers_from(worker).any(|other| self.poke(other))
        {
            return;
        }
        // One that sleeps for half a slice has work already.
        if self.monitor.load(SeqCst) == UNTIL_WORK {
            self.wake_monitor();
        }
    }

    pub fn wake_monitor(&self) {
        if self.monitor.load(SeqCst) != 0 && self.monitor.swap(0, SeqCst) != 0 {
            linux::wake(&self.monitor);
        }
    }

    /// Wakes the monitor if it relies on closures that were preempted, because another one begins
    /// or goes on.
    #[inline]
    pub fn notify_entered(&self) {
        // Relaxed: if the monitor is missed as it falls asleep, it looks half a slice later.
        if self.monitor.load(Relaxed) == UNTIL_ENTERED {
            self.wake_monitor();
        }
    }

    /// Wakes a worker if it sleeps or watches.
    pub fn poke(&self, index: usize) -> bool {
        let worker = &self.workers[index];
        let before = match worker.sleeping.load(SeqCst) {
            AWAKE => AWAKE,
            _ => worker.sleeping.swap(AWAKE, SeqCst),
        };
        if before == AWAKE {
            return false;
        }
        self.sleeping.fetch_sub(1, SeqCst);
        // One that watches has seen the exchange.
        if before == ASLEEP
            // If another one has the role by now, it has looked since.
            && let Some(carrier) = role::carrier_of(worker.owner.load(SeqCst))
        {
            self.carrier(carrier).wake(POKE);
        }
        true
    }

    /// Pushes a thread that a request has made NEW or READY.
    pub fn push_again(&self, header: &Header) {
        let header = ptr::from_ref(header).cast_mut();
        // SAFETY: the reference of a thread that never began was left to the thread itself when it
        // was suspended; the caller's change of its state takes it over. That of a started one is
        // its frame's, so this clones it.
        let task = unsafe { Task::from_raw(header) };
        match task.state.is_started() {
            false => self.push(task),
            true => self.push_started(Task::clone(&core::mem::ManuallyDrop::new(task))),
        }
    }

    /// As `push`, of a thread that has a stack. A worker without a kernel thread can continue it at
    /// once: its own one, or else another. The monitor would see it at its next look.
    fn push_started(&self, task: Task) {
        let mut worker = task.worker.load(Relaxed);
        if self.orphans.load(SeqCst) > 0 && self.options.steals() && !self.is_orphan(worker) {
            let mut workers = 0..self.workers.len() as u32;
            worker = workers
                .find(|&other| self.is_orphan(other))
                .unwrap_or(worker);
            // Relaxed: the caller alone has the thread until it is pushed, which publishes this.
            task.worker.store(worker, Relaxed);
        }
        self.push(task);
        self.adopt_if_orphan(worker);
    }

    fn is_orphan(&self, worker: u32) -> bool {
        role::is_orphan(self.worker(worker).owner.load(SeqCst))
    }

    /// Passes a role that has no kernel thread to a thread with a stack that was pushed there.
    pub fn adopt_if_orphan(&self, worker: u32) {
        if self.orphans.load(SeqCst) > 0 {
            self.adopt(worker);
        }
    }
}
