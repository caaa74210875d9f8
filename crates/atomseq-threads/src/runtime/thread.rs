//! The handles of a thread, and the functions that a thread calls for itself.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::fmt;
use std::panic;
use std::sync::Arc;
use std::time::Duration;

use atomseq::nonblocking::Handle;

use super::linux::{self, Nanoseconds};
use super::role::Unpreempted;
use super::scope::{Count, Scope, ScopedJoinHandle};
use super::shared::{Carrier, Shared};
use super::state::{ANYWHERE, KILLED, REQUESTS, SIGNALLED, STOPME, Wait};
use super::task::{Destroyed, Task};
use super::worker::{ASLEEP, WATCHES};
use super::{Error, LEVELS, Runtime};

/// A reference to a thread of a runtime. Any thread of the process may use it (S92, section 5.3.2).
///
/// All operations are lock-free, also while the system has no memory for a place in a queue. While
/// all kernel threads are taken, one that makes a thread ready may choose the next thread of a
/// worker: if its caller is stopped in the middle of that, this worker waits for the caller.
///
/// All but [`signal`](Thread::signal) may be called in a signal handler. So may `clone`, but not
/// the drop of the last reference to a thread, which frees its memory.
#[derive(Clone)]
pub struct Thread(pub(super) Task);

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Thread");
        debug
            .field("name", &self.name())
            .field("level", &self.level());
        debug.field("is_finished", &self.is_finished()).finish()
    }
}

impl Thread {
    /// Returns the name that its builder set, or else that of its spawner.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns its level.
    pub fn level(&self) -> u8 {
        self.0.level
    }

    /// Returns whether its closure has returned, and a join would return at once.
    pub fn is_finished(&self) -> bool {
        self.0.is_announced()
    }

    /// Ends a [`park`] of the thread, or else the next one. What precedes happens before what
    /// follows that `park`.
    pub fn unpark(&self) {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        if self.0.state.unpark() {
            self.push();
        }
    }

    /// Requests that the thread be suspended, until [`resume`](Thread::resume).
    ///
    /// It stops at its next *safepoint*: a call of [`yield_now`], [`park`], [`sleep`],
    /// [`checkpoint`] or a `join`. If it waits in one of these, it stops as soon as the wait is
    /// over; if it has not begun, it does not begin. So it may continue for any length of time
    /// first; see [`is_suspended`](Thread::is_suspended).
    ///
    /// While it is suspended, a scope that waits for it does not end, nor does the drop of a
    /// runtime that waits for its threads.
    pub fn suspend(&self) {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        self.0.state.suspend(STOPME);
    }

    /// Requests that the thread be suspended wherever it is, until [`resume`](Thread::resume): if
    /// it runs, a signal stops it.
    ///
    /// # Safety
    ///
    /// The thread may hold any lock, that of the allocator among them. Until it is resumed, no
    /// other thread may need one of these to get there.
    pub unsafe fn suspend_anywhere(&self) {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        self.0.state.suspend(STOPME | ANYWHERE);
        if self.0.state.is_started() {
            let shared = &self.0.shared;
            // Relaxed: an old value is that of a carrier that does not mind the signal.
            let carrier = shared.carrier(self.0.carrier.load(Relaxed));
            linux::send(carrier.number.load(SeqCst), shared.options.signal);
        }
    }

    /// Returns whether the thread is suspended, as a request has asked.
    pub fn is_suspended(&self) -> bool {
        self.0.state.is_stopped()
    }

    /// Withdraws a request to suspend the thread; if it is suspended, it is ready to run again.
    pub fn resume(&self) {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        if self.0.state.resume() && self.0.shared.options.resumes() {
            self.push();
        }
    }

    /// Lets a suspended thread run to its next safepoint, where it is suspended again. Returns
    /// false, and does nothing, if it is not suspended: so of concurrent calls all but one fail.
    ///
    /// S92's step is one instruction, for debuggers, which have the kernel's means for that today.
    pub fn step(&self) -> bool {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        let steps = self.0.state.step();
        if steps {
            self.push();
        }
        steps
    }

    /// Makes the thread call `procedure` at its next safepoint. If it waits in one, it calls the
    /// procedure as soon as it is its turn, and then continues to wait. If it is suspended, it
    /// calls the procedure once it is resumed.
    ///
    /// Of several procedures the newest is called first. One that a procedure adds for the same
    /// thread is called at the same safepoint. A panic of one is the thread's, and the
    /// others are dropped. They are dropped, too, as the thread finishes, and by the caller if it
    /// has. Allocates.
    pub fn signal(&self, procedure: impl FnOnce() + Send + 'static) {
        self.0.push_signal(Box::new(procedure));
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        if self.0.state.request(SIGNALLED) {
            self.push();
        }
    }

    /// Ends the thread at its next safepoint, by unwinding: destructors run, and a join returns
    /// [`Destroyed`] as the error. If it waits or is suspended at one, that is soon, unless it is a
    /// join that [runs the other thread](super#kernel-threads); if it has not begun, its closure is
    /// dropped. No effect on a thread that has finished.
    ///
    /// As by a panic, the locks of `std` that it holds are poisoned, and the process ends if the
    /// unwinding reaches an `extern "C"` function. A thread that unwinds already answers no request
    /// but to be suspended, and that only at the end of a wait. A thread that catches the unwinding
    /// unwinds again at its next safepoint.
    pub fn destroy(&self) {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        if self.0.state.request(KILLED) {
            self.push();
        }
    }

    /// Pushes it after a change that made it NEW or READY.
    fn push(&self) {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        self.0.shared.push_again(&self.0);
    }
}

/// A handle of a thread to join. Its drop detaches the thread, which continues.
#[must_use = "a thread whose handle is dropped is detached"]
pub struct JoinHandle<T> {
    task: Option<Task>,
    outcome: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JoinHandle").field(&self.thread()).finish()
    }
}

impl<T> JoinHandle<T> {
    pub(super) fn new(task: Task) -> JoinHandle<T> {
        JoinHandle {
            task: Some(task),
            outcome: PhantomData,
        }
    }

    fn task(&self) -> &Task {
        self.task.as_ref().expect("joined only once")
    }

    /// Returns the thread.
    pub fn thread(&self) -> Thread {
        Thread(self.task().clone())
    }

    /// Returns whether a join would return at once.
    pub fn is_finished(&self) -> bool {
        self.task().is_announced()
    }

    /// Waits for the thread to finish, and returns the result of its closure. If the caller is a
    /// thread of the same runtime, spawned this one last, and this one has not begun, the caller
    /// may run it on its own stack. A caller that is in no runtime blocks.
    ///
    /// # Errors
    ///
    /// The payload of its panic, or [`Destroyed`].
    ///
    /// # Panics
    ///
    /// If the thread joins itself. Threads that join each other wait indefinitely.
    #[track_caller]
    pub fn join(mut self) -> std::thread::Result<T> {
        match Carrier::get() {
            Some(carrier) if carrier.current.load(Relaxed) == self.task().as_ptr() => {
                panic!("a thread that joins itself would wait indefinitely; join it in another one")
            }
            Some(carrier) => wait_for(carrier, self.task()),
            None => self.task().wait_for_end(),
        }
        let task = self.task.take().expect("joined only once");
        // SAFETY: of the handle's type; the handle is the only one, and the end was awaited.
        let outcome = unsafe { task.take() };
        outcome.expect("a thread that has finished has an outcome")
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            // SAFETY: the handle is the only one.
            unsafe { task.detach() };
        }
    }
}

/// Waits for the end of a thread, as the current thread of the carrier.
fn wait_for(carrier: &Carrier, task: &Task) {
    checkpoint_on(carrier);
    if task.is_announced() {
        return;
    }
    if carrier.shared().run_inline(carrier, task) {
        // Requests that came meanwhile.
        return checkpoint_on(carrier);
    }
    let mut is_expected = false;
    while !task.is_announced() {
        if !is_expected && !task.expect_end(carrier.shared().reference(carrier)) {
            return;
        }
        is_expected = true;
        checkpoint_on(carrier);
        // A procedure may have consumed the event, by a wait of its own.
        if !task.is_announced() {
            let may_stall = !task.state.is_started();
            wait_or_run(carrier, task.as_ptr().cast(), may_stall, unanswered());
        }
    }
}

/// Ends a wait of a thread, now or in the future.
pub(super) fn wake(task: &Task) {
    if task.state.wake() {
        let _unpreempted = Carrier::get().map(Unpreempted::new);
        task.shared.push_again(task);
    }
}

/// Waits until `is_over` returns true, for which `wake` is called then. No safepoint. Meanwhile the
/// threads of the scope `count` may run here.
pub(super) fn wait_until(carrier: &Carrier, count: &Count, is_over: impl Fn() -> bool) {
    while !is_over() {
        wait_or_run(carrier, ptr::from_ref(count).cast_mut().cast(), true, 0);
    }
}

/// Waits for `State::wake`, or for no reason, unless one of these requests is set. Meanwhile runs
/// what is awaited, if a scheduler has no other stack for it; at once, if it `may_stall` and has.
fn wait_or_run(carrier: &Carrier, awaited: *mut (), may_stall: bool, requests: u32) {
    let shared = carrier.shared();
    if shared.has_room(carrier) {
        if may_stall && shared.run_stalled(carrier, awaited) {
            return;
        }
        carrier.lending.offer(awaited);
    }
    block(carrier, |task| task.state.wait(requests));
    carrier.lending.withdraw(awaited);
    shared.run_granted(carrier);
}

/// The requests that the current thread answers now. While it unwinds there are none: to be
/// destroyed, or a panic of a procedure, would end the process.
fn unanswered() -> u32 {
    match std::thread::panicking() {
        true => 0,
        false => REQUESTS,
    }
}

/// Lets other threads run if `leave` has made the current one leave RUNNING. Returns the result of
/// `leave`.
fn block(carrier: &Carrier, leave: impl FnOnce(&Task) -> Wait) -> Wait {
    let _unpreempted = Unpreempted::new(carrier);
    let shared = carrier.shared();
    let task = shared.reference(carrier);
    // Relaxed: the change of the state publishes it.
    task.worker.store(carrier.worker.load(Relaxed), Relaxed);
    let result = leave(&task);
    if result == Wait::Begun {
        let has_role = shared.leave(carrier);
        shared.wait_for_turn(carrier, has_role);
    }
    result
}

#[track_caller]
pub(super) fn expect_carrier<'a>() -> &'a Carrier {
    match Carrier::get() {
        Some(carrier) if !carrier.current.load(Relaxed).is_null() => carrier,
        _ => panic!("only a thread of a runtime can do this; call `Runtime::spawn` or `run` first"),
    }
}

/// Returns the current thread.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn current() -> Thread {
    let carrier = expect_carrier();
    Thread(carrier.shared().reference(carrier))
}

/// Answers the requests of other threads to this one: [`Thread::suspend`], [`Thread::signal`] and
/// [`Thread::destroy`]. If there are none, costs a load.
///
/// # Panics
///
/// Outside of a runtime. Unwinds if the thread is destroyed.
#[track_caller]
pub fn checkpoint() {
    checkpoint_on(expect_carrier());
}

fn checkpoint_on(carrier: &Carrier) {
    let mut answers = unanswered();
    if !carrier.shared().options.destroys() {
        answers &= !KILLED;
    }
    loop {
        let Some(current) = carrier.current() else {
            return;
        };
        let requests = current.state.requests() & answers;
        if requests == 0 {
            return;
        } else if requests & KILLED != 0 {
            // Not a panic that is reported.
            panic::resume_unwind(Box::new(Destroyed));
        } else if requests & SIGNALLED != 0 {
            // First the flag: what is pushed from now on sets it again.
            current.state.answer(SIGNALLED);
            carrier.shared().reference(carrier).run_signals();
        } else {
            block(carrier, |task| match task.state.stop() {
                true => Wait::Begun,
                false => Wait::Over,
            });
            // A step goes on to the next safepoint.
            answers &= !STOPME;
        }
    }
}

/// Lets other threads run whose turn it is. Returns when it is this one's again, at once if none is
/// ready. A safepoint.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn yield_now() {
    let carrier = expect_carrier();
    checkpoint_on(carrier);
    let shared = carrier.shared();
    if !shared.has_work_for(carrier) {
        return;
    }
    let _unpreempted = Unpreempted::new(carrier);
    let task = shared.reference(carrier);
    let index = carrier.worker.load(Relaxed);
    // Relaxed: as in `block`.
    task.worker.store(index, Relaxed);
    task.state.yield_now();
    shared.worker(index).push(task);
    let has_role = shared.leave(carrier);
    if !has_role {
        shared.notify(index);
        shared.adopt_if_orphan(index);
    }
    shared.wait_for_turn(carrier, has_role);
}

/// Blocks the thread until another one calls [`Thread::unpark`] for it, or returns at once if one
/// has since the last `park`. A safepoint.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn park() {
    let carrier = expect_carrier();
    loop {
        checkpoint_on(carrier);
        if block(carrier, |task| task.state.park(unanswered())) == Wait::Over {
            return;
        }
    }
}

/// Blocks the thread for at least that long; its worker runs others. A safepoint.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn sleep(time: Duration) {
    let carrier = expect_carrier();
    let length = Nanoseconds::try_from(time.as_nanos()).unwrap_or(Nanoseconds::MAX);
    let end = linux::now().saturating_add(length);
    checkpoint_on(carrier);
    let shared = carrier.shared();
    let index = carrier.worker.load(Relaxed);
    let mut task = shared.reference(carrier);
    let entry = loop {
        let unpreempted = Unpreempted::new(carrier);
        match shared.worker(index).sleep_until(end, task) {
            Ok(entry) => break entry,
            Err(back) => task = back,
        }
        drop(unpreempted);
        // Until the system has memory, as a kernel thread: its worker runs others.
        let left = end.saturating_sub(linux::now());
        if left == 0 {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left.min(BRIEFLY)));
        checkpoint_on(carrier);
    };
    let _timer = Timer {
        shared,
        index,
        entry,
    };
    // The worker's role may have passed on to one that sleeps for longer.
    shared.poke(index as usize);
    shared.wake_monitor();
    loop {
        checkpoint_on(carrier);
        // After the checkpoint: a procedure may have consumed the event, by a wait of its own.
        if linux::now() >= end {
            return;
        }
        block(carrier, |task| task.state.wait(unanswered()));
    }
}

/// How long a thread sleeps for which the system has no memory, before it tries again.
const BRIEFLY: Nanoseconds = 1_000_000;

/// The place of a thread among those that sleep. It is left also if the time is over: the entry
/// that a scheduler pops later might hold the last reference, which a scheduler must not drop.
struct Timer<'a> {
    shared: &'a Shared,
    index: u32,
    entry: Handle,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        drop(self.shared.worker(self.index).stop_sleeping(self.entry));
    }
}

/// The options of a thread: its name and its level.
///
/// ```
/// use atomseq_threads::runtime::{Builder, Runtime};
///
/// let runtime = Runtime::new()?;
/// let builder = Builder::new().name("indexer").level(3);
/// let thread = builder.spawn_on(&runtime, || 7)?;
/// assert_eq!(thread.thread().name(), Some("indexer"));
/// assert_eq!(thread.join().unwrap(), 7);
/// # Ok::<(), atomseq_threads::runtime::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing before `spawn`"]
pub struct Builder {
    name: Option<String>,
    level: Option<u8>,
}

impl Builder {
    /// Returns the default options: name and level of the spawner, or no name and level 0 outside
    /// of a runtime.
    pub const fn new() -> Builder {
        Builder {
            name: None,
            level: None,
        }
    }

    /// Sets the name.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into());
        self
    }

    /// Sets the level, from 0 to [`LEVELS`] - 1. Each level has half the attention of the one
    /// before: of a worker's turns, every second one is of level 0, every fourth of level 1, and so
    /// on. Turns of levels without ready threads go to the others.
    pub const fn level(mut self, level: u8) -> Builder {
        self.level = Some(level);
        self
    }

    /// Spawns a thread on the runtime of the calling one.
    ///
    /// # Errors
    ///
    /// [`Error::Level`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> Result<JoinHandle<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let shared = &expect_carrier().current().expect("checked").shared;
        // SAFETY: valid for as long as they like.
        unsafe { self.spawn_in(shared, None, f) }
    }

    /// Spawns a thread on this runtime.
    ///
    /// # Errors
    ///
    /// [`Error::Level`].
    pub fn spawn_on<F, T>(self, runtime: &Runtime, f: F) -> Result<JoinHandle<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: valid for as long as they like.
        unsafe { self.spawn_in(&runtime.shared, None, f) }
    }

    /// Spawns a thread in a scope.
    ///
    /// # Errors
    ///
    /// [`Error::Level`].
    pub fn spawn_scoped<'scope, F, T>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, Error>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        scope.spawn_with(self, f)
    }

    /// Spawns a thread.
    ///
    /// # Safety
    ///
    /// As [`Task::new`].
    pub(super) unsafe fn spawn_in<F, T>(
        self,
        shared: &Arc<Shared>,
        scope: Option<Arc<Count>>,
        f: F,
    ) -> Result<JoinHandle<T>, Error>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let carrier = Carrier::get().filter(|carrier| ptr::eq(carrier.shared, &**shared));
        let spawner = carrier.and_then(Carrier::current);
        let inherited = |spawner: &super::task::Header| spawner.level;
        let level = self.level.or(spawner.map(inherited)).unwrap_or(0);
        if level >= LEVELS {
            return Err(Error::Level(level));
        }
        let name = self.name.map(Arc::from);
        let name = name.or_else(|| spawner.and_then(|spawner| spawner.name.clone()));
        // SAFETY: the current thread's.
        let inherited = spawner.map(|spawner| unsafe { spawner.inherited.share() });
        // Not before: the destructor of a closure that is refused may panic.
        if let Some(scope) = &scope {
            scope.begin();
        }
        // SAFETY: the caller's promise.
        let task = unsafe { Task::new(f, Arc::clone(shared), name, level, inherited, scope) };
        shared.live.fetch_add(1, SeqCst);
        let handle = JoinHandle::new(task.clone());
        match carrier {
            Some(carrier) => {
                let _unpreempted = Unpreempted::new(carrier);
                let worker = carrier.worker.load(Relaxed);
                // Relaxed: as in `block`; of a new thread, the queue or `newest` publishes it.
                task.worker.store(worker, Relaxed);
                match shared.worker(worker).put_newest(task) {
                    Some(before) => shared.push(before),
                    None => shared.notify(worker),
                }
            }
            None => {
                let count = shared.workers.len();
                let turn = shared.turn.fetch_add(1, SeqCst);
                let workers = (0..count).map(|offset| turn.wrapping_add(offset) % count);
                // One that watches is there sooner than one that sleeps.
                let find = |state| {
                    let is = |index: &usize| shared.workers[*index].sleeping.load(SeqCst) == state;
                    workers.clone().find(is)
                };
                let index = find(WATCHES)
                    .or_else(|| find(ASLEEP))
                    .unwrap_or(turn % count);
                // Relaxed: as above.
                task.worker.store(index as u32, Relaxed);
                shared.push(task);
            }
        }
        Ok(handle)
    }
}

/// Spawns a thread on the runtime of the calling one, with its name and level.
///
/// # Panics
///
/// Outside of a runtime.
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match Builder::new().spawn(f) {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}
