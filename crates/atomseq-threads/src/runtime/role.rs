//! How the role of a worker passes from one kernel thread to another.
//!
//! A closure stays on the kernel thread that began it. What moves is the worker's *role*: the right
//! to take threads from its queues. One kernel thread has it, which `Worker::owner` names:
//!
//! ```text
//! owner    epoch << 16 | carrier << 1 | in a closure
//!
//!   scheduler ──enter──> in a closure ──leave──> scheduler      by the carrier itself
//!       │                     └──detach──> no carrier           by the monitor: it is blocked
//!       └──grant──> another carrier, or none
//! ```
//!
//! Invariants:
//!
//! 1. While the flag is clear, only the carrier that is named changes the word, and takes threads
//!    from the queues as the worker. While it is set, the carrier itself or the monitor clears it,
//!    by compare-and-swap. So a carrier that returns from the kernel learns at its next call of
//!    this crate whether it still has the role.
//! 2. The epoch grows with each closure that is entered and with each carrier, so no value recurs,
//!    and a tick that is meant for one closure preempts no other.
//! 3. A kernel thread waits for GRANT only after its thread left RUNNING, or after it became a
//!    spare. The scheduler that takes this thread from its queue or its wait, or this spare from
//!    its stack, grants once. So each wait has one grant.
//!    What a carrier keeps for itself (`current`, `value`, `worker`, `is_preemptible`) is accessed
//!    by its own thread and by the handlers on it, so those accesses are relaxed, with a compiler
//!    fence where a handler must see their order. The `worker` and `carrier` of a thread are, too:
//!    the thread's state publishes them.
//! 4. With the flag clear, a carrier neither allocates nor frees, and waits for no lock: a thread
//!    that was preempted may hold it, and may need this very worker to go on.

use core::ptr;
use core::sync::atomic::{
    Ordering::{Relaxed, Release, SeqCst},
    compiler_fence,
};

use std::sync::OnceLock;

use super::linux::{self, Nanoseconds};
use super::shared::{Carrier, GRANT, POKE, Shared};
use super::state::{ANYWHERE, KILLED, Taken};
use super::task::{Header, Task};
use super::worker::{ASLEEP, AWAKE, LEVELS, WATCHES};
use crate::arch;

/// In a closure.
const INSIDE: u64 = 1;
const EPOCH: u64 = 1 << 16;
/// Of a worker without a kernel thread.
const NO_CARRIER: u64 = 0x7fff;
/// Of a worker whose next kernel thread is being chosen.
const CHOOSING: u64 = 0x7ffe;
/// The maximum number of kernel threads: larger numbers have other meanings.
pub(super) const MAX_CARRIERS: usize = 0x7ffe;
/// No value of `owner`.
pub(super) const NEVER: u64 = u64::MAX;

/// The `owner` of a new worker.
pub(super) const ORPHAN: u64 = NO_CARRIER << 1;

/// The number of threads without a stack that stall for want of a kernel thread, before the role
/// waits for one.
const TRIES: usize = 1024;

/// What counts as so many: a thread that stalls while no other one is queued. It has probably
/// stalled before.
const AGAIN: usize = 16;

/// How often an idle worker looks at the queues of others before it takes a thread that its spawner
/// may be about to join.
const LOOKS: usize = 200;

/// Returns the carrier that has the role, if one has.
pub(super) fn carrier_of(owner: u64) -> Option<u32> {
    let carrier = (owner & (EPOCH - 1)) >> 1;
    (carrier < CHOOSING).then_some(carrier as u32)
}

/// Returns whether a worker has no kernel thread.
pub(super) fn is_orphan(owner: u64) -> bool {
    owner & (EPOCH - 1) == ORPHAN
}

/// Returns whether the carrier is in a closure.
pub(super) fn is_inside(owner: u64) -> bool {
    owner & INSIDE != 0
}

fn passed_to(owner: u64, carrier: u64) -> u64 {
    ((owner / EPOCH + 1) * EPOCH) | (carrier << 1)
}

/// While it lives, the calling kernel thread is not preempted.
pub(super) struct Unpreempted<'a>(&'a Carrier, bool);

impl<'a> Unpreempted<'a> {
    pub fn new(carrier: &'a Carrier) -> Unpreempted<'a> {
        let before = carrier.is_preemptible.load(Relaxed);
        carrier.is_preemptible.store(false, Relaxed);
        compiler_fence(SeqCst);
        Unpreempted(carrier, before)
    }
}

impl Drop for Unpreempted<'_> {
    fn drop(&mut self) {
        match self.1 {
            true => self.0.allow_preemption(),
            false => self.0.is_preemptible.store(false, Relaxed),
        }
    }
}

impl Shared {
    /// Enters a closure. The calling carrier has the role.
    pub fn enter(&self, carrier: &Carrier) {
        let value = carrier.value.load(Relaxed) + EPOCH;
        carrier.value.store(value, Relaxed);
        let worker = self.worker(carrier.worker.load(Relaxed));
        // Release: pairs with the exchange of `detach`.
        worker.owner.store(value | INSIDE, Release);
        self.notify_entered();
        carrier.allow_preemption();
    }

    /// Leaves a closure. Returns whether the calling carrier still has the role.
    pub fn leave(&self, carrier: &Carrier) -> bool {
        carrier.is_preemptible.store(false, Relaxed);
        compiler_fence(SeqCst);
        let worker = self.worker(carrier.worker.load(Relaxed));
        let value = carrier.value.load(Relaxed);
        let left = worker
            .owner
            .compare_exchange(value | INSIDE, value, SeqCst, SeqCst);
        left.is_ok()
    }

    /// Takes the role from a carrier that is blocked inside of a closure, and passes it on. Only
    /// the monitor calls it.
    pub fn detach(&self, index: u32, owner: u64) -> bool {
        let worker = self.worker(index);
        let choosing = passed_to(owner, CHOOSING);
        let taken = worker
            .owner
            .compare_exchange(owner, choosing, SeqCst, SeqCst);
        if taken.is_ok() {
            self.pass(index);
        }
        taken.is_ok()
    }

    /// Passes a role that has no kernel thread, if there is a spare one or a thread with a stack.
    pub fn adopt(&self, index: u32) {
        let worker = self.worker(index);
        let owner = worker.owner.load(SeqCst);
        if !is_orphan(owner) {
            return;
        }
        let choosing = passed_to(owner, CHOOSING);
        let taken = worker
            .owner
            .compare_exchange(owner, choosing, SeqCst, SeqCst);
        if taken.is_ok() {
            self.orphans.fetch_sub(1, SeqCst);
            self.pass(index);
        }
    }

    /// Adds the calling carrier to the spares.
    fn add_spare(&self, index: u32, carrier: u32) {
        // There is room for all.
        let _ = self.worker(index).spares.push(carrier);
        self.spares.fetch_add(1, SeqCst);
        if self.orphans.load(SeqCst) > 0 {
            for index in 0..self.workers.len() {
                self.adopt(index as u32);
            }
        }
    }

    /// Takes a spare kernel thread, if possible one that has run on this worker's CPU.
    fn take_spare(&self, index: u32) -> Option<u32> {
        let mut workers = self.workers_from(index);
        // One that is pushed and not yet counted looks for orphans.
        let is_any = self.spares.load(SeqCst) > 0;
        let spare = is_any.then(|| workers.find_map(|other| self.workers[other].spares.pop()));
        let spare = spare.flatten();
        let left = match spare {
            Some(_) => self.spares.fetch_sub(1, SeqCst) - 1,
            None => 0,
        };
        let is_low =
            left < self.workers.len() as isize && self.created.load(SeqCst) < self.carriers.len();
        if is_low && self.wanted.swap(1, SeqCst) == 0 {
            linux::wake(&self.wanted);
        }
        spare
    }

    /// Grants the role to a carrier, which waits or is about to. The caller has the role.
    fn grant(&self, index: u32, carrier: u32, task: Option<Task>, flag: u64) {
        let worker = self.worker(index);
        let to = self.carrier(carrier);
        let value = passed_to(worker.owner.load(SeqCst), carrier.into());
        if let Some(cpu) = worker.cpu
            && to.cpu.swap(cpu, SeqCst) != cpu
        {
            linux::pin(to.number.load(SeqCst), cpu);
        }
        to.granted_worker.store(index, SeqCst);
        to.granted_value.store(value, SeqCst);
        let task = task.map_or(ptr::null_mut(), Task::into_raw);
        to.granted_task.store(task, SeqCst);
        worker.owner.store(value | flag, SeqCst);
        // One that begins a thread enters it itself.
        if flag == INSIDE && !to.is_preempted.load(SeqCst) {
            self.notify_entered();
        }
        to.wake(GRANT);
    }

    /// Grants the role to the carrier of a started thread that was taken.
    fn grant_started(&self, index: u32, task: Task) {
        task.worker.store(index, Relaxed);
        let carrier = task.carrier.load(Relaxed);
        // Its frame has a reference, so this one is not the last.
        drop(task);
        self.grant(index, carrier, None, INSIDE);
    }

    /// What a test does between the end of a sleeper's time and its wake.
    fn in_gap(&self) {
        #[cfg(feature = "unstable-internals")]
        if let Some(gap) = self.options.gap {
            gap();
        }
    }

    /// Returns whether the calling carrier has the role, and is in no closure.
    #[cfg(feature = "unstable-internals")]
    pub fn is_scheduling(&self, carrier: &Carrier) -> bool {
        let worker = self.worker(carrier.worker.load(Relaxed));
        worker.owner.load(SeqCst) == carrier.value.load(Relaxed)
    }

    /// Passes the role on: to the thread whose turn is next, or else to a spare. The caller has the
    /// role, and does not any more afterwards.
    pub fn pass(&self, index: u32) {
        loop {
            if self.try_pass(index) {
                return;
            }
            let worker = self.worker(index);
            let orphan = passed_to(worker.owner.load(SeqCst), NO_CARRIER);
            self.orphans.fetch_add(1, SeqCst);
            worker.owner.store(orphan, SeqCst);
            // One that becomes a spare now sees the orphan, or this sees the spare.
            if self.spares.load(SeqCst) <= 0 {
                self.wake_monitor();
                return;
            }
            let choosing = passed_to(orphan, CHOOSING);
            let taken = worker
                .owner
                .compare_exchange(orphan, choosing, SeqCst, SeqCst);
            if taken.is_err() {
                return;
            }
            self.orphans.fetch_sub(1, SeqCst);
        }
    }

    fn try_pass(&self, index: u32) -> bool {
        self.unstall(index);
        let mut tries = 0;
        while tries < TRIES
            && let Some(task) = self.select(index)
        {
            if task.state.is_started() {
                match task.state.take() {
                    Taken::Started => {
                        self.grant_started(index, task);
                        return true;
                    }
                    // It may be resumed and finish before this line.
                    _ => self.drop_later(task),
                }
            } else if let Some(spare) = self.take_spare(index) {
                match self.take_new(&task, spare) {
                    true => {
                        self.grant(index, spare, Some(task), 0);
                        return true;
                    }
                    false => {
                        core::mem::forget(task);
                        self.add_spare_quietly(index, spare);
                    }
                }
            } else {
                match self.take_with_waiter(index, task) {
                    Ok((waiter, task)) => {
                        self.grant(index, waiter, task, INSIDE);
                        return true;
                    }
                    Err(task) => tries += self.stall(index, task),
                }
            }
        }
        let spare = self.take_spare(index);
        if let Some(spare) = spare {
            self.grant(index, spare, None, 0);
        }
        spare.is_some()
    }

    /// As `add_spare`, of one that was just taken: an orphan that saw none then is seen by
    /// `pass` or the monitor.
    fn add_spare_quietly(&self, index: u32, carrier: u32) {
        let _ = self.worker(index).spares.push(carrier);
        self.spares.fetch_add(1, SeqCst);
    }

    /// Takes a thread that has no stack yet, for that kernel thread. If it is suspended instead,
    /// its reference is left to it: the caller forgets it.
    fn take_new(&self, task: &Task, carrier: u32) -> bool {
        // Relaxed: the change of the state publishes it, to a thread that sees it started.
        task.carrier.store(carrier, Relaxed);
        task.state.take() == Taken::New
    }

    /// Takes a new thread, for which there is no spare kernel thread, together with one that waits
    /// for it and whose stack has room. Returns that one's kernel thread, and the new thread unless
    /// it was suspended.
    fn take_with_waiter(&self, index: u32, task: Task) -> Result<(u32, Option<Task>), Task> {
        let mut carriers = self.carriers.iter().map_while(OnceLock::get);
        let waiter = carriers.find(|carrier| {
            let awaited = task
                .awaited()
                .into_iter()
                .find(|&awaited| carrier.lending.offers(awaited));
            awaited.is_some_and(|awaited| self.take_waiting(carrier, awaited, index))
        });
        let Some(waiter) = waiter else {
            return Err(task);
        };
        let task = match self.take_new(&task, waiter.index) {
            true => Some(task),
            false => {
                core::mem::forget(task);
                None
            }
        };
        Ok((waiter.index, task))
    }

    /// Takes the current thread of a carrier if it still waits for that, with this worker's role.
    fn take_waiting(&self, carrier: &Carrier, awaited: *mut (), index: u32) -> bool {
        carrier.lending.claim(awaited, || {
            // While this is claimed, the thread does not go on, so it exists.
            carrier.current().is_some_and(|waiter| {
                let is_taken = waiter.state.take_waiting();
                if is_taken {
                    waiter.worker.store(index, Relaxed);
                }
                is_taken
            })
        })
    }

    /// Leaves a thread without a stack until a kernel thread is free. Returns how many tries that
    /// counts as.
    fn stall(&self, index: u32, task: Task) -> usize {
        let worker = self.worker(index);
        worker.stall(task);
        // The kernel thread of a worker that has found nothing meanwhile may be free.
        self.notify(index);
        match worker.has_queued() {
            true => 1,
            false => AGAIN,
        }
    }

    /// Lets the next stalled thread wait for a turn again. One for each turn of another thread: a
    /// kernel thread may be free by now, or its joiner may lend a stack.
    fn unstall(&self, index: u32) {
        if let Some(task) = self.worker(index).pop_stalled() {
            self.worker(index).push(task);
        }
    }

    /// Pops the next thread of a worker, those included whose time has come.
    fn select(&self, index: u32) -> Option<Task> {
        let worker = self.worker(index);
        self.wake_due(index);
        if !worker.has_queued() {
            let of_others = || self.steal_if_stalled(index);
            let newest = worker.take_newest().or_else(of_others);
            return newest.or_else(|| worker.pop_stalled());
        }
        if let Some(task) = worker.take_newest() {
            self.worker(index).push(task);
        }
        worker.pop()
    }

    /// Pops a thread of another worker, if this one has none but such as cannot begin.
    fn steal_if_stalled(&self, index: u32) -> Option<Task> {
        if self.worker(index).stalls() == 0 || !self.options.steals() {
            return None;
        }
        let mut others = self.workers_from(index).skip(1);
        others.find_map(|other| self.workers[other].pop())
    }

    /// Makes the threads ready whose time has come.
    fn wake_due(&self, index: u32) {
        let worker = self.worker(index);
        let Some(first) = worker.next_time() else {
            return;
        };
        let now = linux::now();
        if first > now {
            return;
        }
        while let Some(task) = worker.pop_due(now) {
            self.in_gap();
            match task.state.wake() {
                // With this reference; the frame of the thread has another one. Here, not where
                // it waits: the worker there may sleep.
                true => self.worker(index).push(task),
                // Woken by another event. It may have finished since.
                false => self.drop_later(task),
            }
        }
    }

    /// Pops a thread of this worker, or steals one of another.
    fn select_or_steal(&self, carrier: &Carrier, index: u32) -> Option<Task> {
        if let Some(task) = self.select(index) {
            return Some(task);
        }
        let count = self.workers.len();
        if count == 1 || !self.options.steals() {
            return None;
        }
        let others = || self.workers_from(index).skip(1);
        for _ in 0..LOOKS.div_ceil(count - 1) {
            for other in others() {
                self.wake_due(other as u32);
                let worker = &self.workers[other];
                if let Some(task) = worker.pop().or_else(|| worker.pop_stalled()) {
                    return Some(task);
                }
            }
            if carrier.word.load(SeqCst) != 0 || self.worker(index).has_work() {
                return self.select(index);
            }
            core::hint::spin_loop();
        }
        others().find_map(|other| self.workers[other].take_newest())
    }

    /// Sleeps until something is pushed, a time has come, or a reason is stored in the carrier's
    /// word. The calling carrier has the role.
    fn idle(&self, carrier: &Carrier, index: u32) {
        let worker = self.worker(index);
        // In this order: `poke` subtracts after it has seen that this waits.
        self.sleeping.fetch_add(1, SeqCst);
        worker.sleeping.store(WATCHES, SeqCst);
        let has_work = match self.options.steals() {
            true => self.workers.iter().any(|worker| worker.has_work()),
            false => worker.has_work(),
        };
        if !has_work && !self.is_over() {
            let is_over =
                || carrier.word.load(SeqCst) != 0 || worker.sleeping.load(SeqCst) == AWAKE;
            let sleep = || {
                let slept = worker
                    .sleeping
                    .compare_exchange(WATCHES, ASLEEP, SeqCst, SeqCst);
                let left = |time: Nanoseconds| time.saturating_sub(linux::now());
                let limit = worker.next_time().map(left);
                if slept.is_ok() && limit != Some(0) {
                    linux::wait(&carrier.word, 0, limit);
                }
            };
            worker.patience.wait(is_over, sleep);
        }
        if worker.sleeping.swap(AWAKE, SeqCst) != AWAKE {
            self.sleeping.fetch_sub(1, SeqCst);
        }
        carrier.word.fetch_and(!POKE, SeqCst);
        // While this worker is busy, the monitor sees that their time has come.
        if worker.next_time().is_some() {
            self.wake_monitor();
        }
    }

    /// Waits until the calling carrier is granted a role. Returns false if all is over.
    fn wait_for_grant(&self, carrier: &Carrier) -> bool {
        loop {
            let word = carrier.word.fetch_and(!(GRANT | POKE), SeqCst);
            if word & GRANT != 0 {
                break;
            }
            if self.is_over() {
                return false;
            }
            linux::wait(&carrier.word, 0, None);
        }
        let worker = carrier.granted_worker.load(SeqCst);
        carrier.worker.store(worker, Relaxed);
        let value = carrier.granted_value.load(SeqCst);
        carrier.value.store(value, Relaxed);
        true
    }

    /// Runs other threads until it is the turn of the current one, which has left RUNNING; then
    /// it is RUNNING again. `has_role` is what `leave` returned.
    pub fn wait_for_turn(&self, carrier: &Carrier, has_role: bool) {
        if has_role && self.run_others(carrier) {
            self.enter(carrier);
            return;
        }
        // A closure that has begun is not over, so there is a grant.
        while !self.wait_for_grant(carrier) {}
        let task = carrier.granted_task.swap(ptr::null_mut(), SeqCst);
        carrier.lending.bring(task.cast());
        carrier.allow_preemption();
    }

    /// Returns true if the next turn is the current thread's, which was taken; false if the role
    /// has passed on.
    fn run_others(&self, carrier: &Carrier) -> bool {
        let index = carrier.worker.load(Relaxed);
        self.unstall(index);
        let mut tries = 0;
        loop {
            // Another worker has taken the current thread.
            if carrier.word.load(SeqCst) & GRANT != 0 || tries >= TRIES {
                self.pass(index);
                return false;
            }
            let Some(task) = self.select_or_steal(carrier, index) else {
                self.idle(carrier, index);
                continue;
            };
            if task.state.is_started() {
                let is_current = task.as_ptr() == carrier.current.load(Relaxed);
                match task.state.take() {
                    Taken::Started if is_current => {
                        task.worker.store(index, Relaxed);
                        return true;
                    }
                    Taken::Started => {
                        self.grant_started(index, task);
                        return false;
                    }
                    _ => self.drop_later(task),
                }
            } else if let Some(spare) = self.take_spare(index) {
                if self.take_new(&task, spare) {
                    self.grant(index, spare, Some(task), 0);
                    return false;
                }
                core::mem::forget(task);
                self.add_spare_quietly(index, spare);
            } else {
                match self.take_with_waiter(index, task) {
                    Ok((waiter, task)) if waiter == carrier.index => {
                        let task = task.map_or(ptr::null_mut(), Task::into_raw);
                        carrier.lending.bring(task.cast());
                        return true;
                    }
                    Ok((waiter, task)) => {
                        self.grant(index, waiter, task, INSIDE);
                        return false;
                    }
                    Err(task) => tries += self.stall(index, task),
                }
            }
        }
    }

    /// Runs a kernel thread: it waits for a role, runs threads, and waits again.
    pub fn run_carrier(&self, carrier: &Carrier) {
        let first_worker = carrier.index % self.workers.len() as u32;
        carrier.worker.store(first_worker, Relaxed);
        loop {
            self.add_spare(carrier.worker.load(Relaxed), carrier.index);
            if !self.wait_for_grant(carrier) {
                return;
            }
            let first = carrier.granted_task.swap(ptr::null_mut(), SeqCst);
            if !first.is_null() {
                // SAFETY: the granter's reference, once.
                let first = unsafe { Task::from_raw(first) };
                if !self.run_new(carrier, first) {
                    continue;
                }
            }
            if self.schedule(carrier) {
                return;
            }
        }
    }

    /// Runs threads without a stack until the role has passed on. Returns whether all is over.
    fn schedule(&self, carrier: &Carrier) -> bool {
        loop {
            // A thread may end with the role of another worker than it began with.
            let index = carrier.worker.load(Relaxed);
            self.unstall(index);
            let Some(task) = self.select_or_steal(carrier, index) else {
                if self.is_over() {
                    return true;
                }
                self.idle(carrier, index);
                continue;
            };
            if task.state.is_started() {
                match task.state.take() {
                    Taken::Started => {
                        self.grant_started(index, task);
                        return false;
                    }
                    _ => self.drop_later(task),
                }
            } else if !self.take_new(&task, carrier.index) {
                core::mem::forget(task);
            } else if !self.run_new(carrier, task) {
                return false;
            }
        }
    }

    /// Runs a thread that was taken as a new one, with the role. Returns whether the carrier still
    /// has it.
    fn run_new(&self, carrier: &Carrier, task: Task) -> bool {
        task.worker.store(carrier.worker.load(Relaxed), Relaxed);
        carrier.current.store(task.as_ptr(), Relaxed);
        self.enter(carrier);
        // Its end allows no more preemption.
        self.run_taken(carrier, task, ptr::null_mut());
        self.leave(carrier)
    }

    /// Runs a taken thread, which is the current one, to its end; then `before` is the current one.
    /// Its memory is freed while the flag is set, so that the monitor passes the role on if that
    /// takes long.
    fn run_taken(&self, carrier: &Carrier, task: Task, before: *mut Header) {
        let is_destroyed = task.state.requests() & KILLED != 0;
        // SAFETY: taken as a new one.
        unsafe { task.run(is_destroyed) };
        // SAFETY: it has run.
        let joiner = unsafe { task.announce() };
        carrier.is_preemptible.store(false, Relaxed);
        compiler_fence(SeqCst);
        task.state.finish();
        if let Some(joiner) = joiner {
            super::thread::wake(&joiner);
        }
        if let Some(scope) = &task.scope {
            scope.finish();
        }
        // Before it is freed: a global allocator may look at the current thread.
        carrier.current.store(before, Relaxed);
        compiler_fence(SeqCst);
        drop(task);
        self.free_unused();
        self.release();
    }

    /// Runs a thread that the current one joins, on its stack, if the thread is the newest one here
    /// and there is room. Returns false if it did not.
    pub fn run_inline(&self, carrier: &Carrier, task: &Task) -> bool {
        if !self.has_room(carrier) {
            return false;
        }
        let unpreempted = Unpreempted::new(carrier);
        let worker = carrier.worker.load(Relaxed);
        let Some(task) = self.worker(worker).take_if_newest(task) else {
            return false;
        };
        if !self.take_new(&task, carrier.index) {
            core::mem::forget(task);
            return false;
        }
        self.run_here(carrier, task, unpreempted);
        true
    }

    /// Runs what the current thread is about to wait for, on its stack, if that has stalled: the
    /// entry `awaited`, or one of the scope whose count that is. Returns false if it did not.
    ///
    /// A scheduler looks at a few stalled threads at a time, so with many it would find that one
    /// late.
    pub fn run_stalled(&self, carrier: &Carrier, awaited: *mut ()) -> bool {
        // Any spare takes it.
        if self.spares.load(SeqCst) > 0 {
            return false;
        }
        let mut workers = self.workers_from(carrier.worker.load(Relaxed));
        workers.any(|index| {
            let mut levels = 0..LEVELS;
            levels.any(|level| self.run_stalled_of(carrier, awaited, index as u32, level))
        })
    }

    /// As `run_stalled`, of one worker's level.
    fn run_stalled_of(&self, carrier: &Carrier, awaited: *mut (), index: u32, level: u8) -> bool {
        let worker = self.worker(index);
        let mut first = ptr::null_mut();
        // Of all levels: a scheduler may take the first one, by which a round ends sooner.
        for _ in 0..worker.stalls() {
            // For one thread at a time: preempted with it, this one would withhold it.
            let unpreempted = Unpreempted::new(carrier);
            let Some(task) = worker.pop_stalled_of(level) else {
                break;
            };
            let popped = task.as_ptr();
            if !task.awaited().contains(&awaited) {
                self.stall(index, task);
                if popped == first {
                    break;
                }
                if first.is_null() {
                    first = popped;
                }
            } else if self.take_new(&task, carrier.index) {
                self.run_here(carrier, task, unpreempted);
                return true;
            } else {
                core::mem::forget(task);
            }
        }
        false
    }

    /// Returns whether the current thread may run another one: half of its stack is left, and it
    /// does not unwind. Else the other one would seem to, and would answer no requests. Nor is it
    /// in a run of coroutines: the other one could find, in a thread-local, what these wait for,
    /// and only their run can wake them.
    pub fn has_room(&self, carrier: &Carrier) -> bool {
        let here = ptr::from_ref(&carrier) as usize;
        let used = carrier.top.load(Relaxed).wrapping_sub(here);
        let has_half = used <= self.options.stack_size / 2;
        has_half && arch::own().is_null() && !std::thread::panicking()
    }

    /// Runs the thread that came with a turn of the current one, if one did.
    pub fn run_granted(&self, carrier: &Carrier) {
        let unpreempted = Unpreempted::new(carrier);
        let task = carrier.lending.receive();
        if !task.is_null() {
            // SAFETY: the granter's reference, once.
            let task = unsafe { Task::from_raw(task.cast()) };
            self.run_here(carrier, task, unpreempted);
        }
    }

    /// Runs a thread that was taken as a new one, on the stack of the current one.
    fn run_here(&self, carrier: &Carrier, task: Task, unpreempted: Unpreempted<'_>) {
        task.worker.store(carrier.worker.load(Relaxed), Relaxed);
        let before = carrier.current.swap(task.as_ptr(), Relaxed);
        drop(unpreempted);
        self.run_taken(carrier, task, before);
        // A request to stop anywhere has sent its signal while the other one ran.
        let stops = |current: &Header| current.state.requests() & ANYWHERE != 0;
        if carrier.current().is_some_and(stops) {
            carrier.has_missed.store(true, Relaxed);
        }
        carrier.allow_preemption();
    }

    /// Passes the role on and waits for a turn, at whatever instruction the current thread is. In a
    /// handler of the calling carrier, which was preemptible.
    pub fn preempt(&self, carrier: &Carrier) {
        let Some(current) = carrier.current() else {
            return;
        };
        // Until it has finished, the lender is not suspended: see `run_here`.
        if carrier.lending.has_brought() {
            return;
        }
        let index = carrier.worker.load(Relaxed);
        current.worker.store(index, Relaxed);
        let stops = current.state.stop_anywhere();
        if !stops && carrier.tick.load(SeqCst) != carrier.value.load(Relaxed) {
            return;
        }
        let has_role = self.leave(carrier);
        if !stops {
            carrier.is_preempted.store(true, SeqCst);
            let task = self.reference(carrier);
            current.state.preempt();
            self.worker(index).push(task);
            if !has_role {
                self.notify(index);
            }
        }
        self.wait_for_turn(carrier, has_role);
        if !stops {
            carrier.is_preempted.store(false, SeqCst);
            carrier.since.store(linux::now(), SeqCst);
            let used = linux::cpu_time(carrier.number.load(SeqCst));
            carrier.used.store(used, SeqCst);
            let value = carrier.value.load(Relaxed);
            carrier.resumed.store(value, SeqCst);
        }
    }

    /// Returns whether the carrier's worker has a thread to run.
    pub fn has_work_for(&self, carrier: &Carrier) -> bool {
        let worker = self.worker(carrier.worker.load(Relaxed));
        worker.has_work() || worker.next_time().is_some_and(|time| time <= linux::now())
    }

    /// Returns another reference to the current thread.
    pub fn reference(&self, carrier: &Carrier) -> Task {
        // SAFETY: the frame that runs it has one.
        let task = unsafe { Task::from_raw(carrier.current.load(Relaxed)) };
        Task::clone(&core::mem::ManuallyDrop::new(task))
    }
}
