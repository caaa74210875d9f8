//! The scheduler of a run: which coroutine runs, which are ready, and the switch between them.
//!
//! All of it belongs to one kernel thread. Its handler of ticks reads it too, but only while
//! `inside` is false: functions here set `inside` first, as a lock that the handler never waits
//! for. A tick that finds it set leaves a note.
//!
//! 1. The coroutines that are ready form a ring, which the running one is part of. `next` leads to
//!    the one that runs next, `previous` to the one that runs last.
//!    `ring` is the scheduler exactly while it is part of its ring: a run that has ended has none.
//! 2. A parked one is in no ring and no queue. A waiting one is in the queue of what it waits for,
//!    another one's `joiner`, or the owner of a scope.
//! 3. Every switch happens with `inside` set, and the side that continues clears it.
//! 4. The memory of a coroutine, its stack, is reused when it has finished and has no reference.
//!    A finished coroutine may put its own stack among the idle ones: nothing takes a stack out
//!    before the switch away from it.

use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, compiler_fence};
use std::io::{self, Write};
use std::{iter, process};

use crate::arch;
use crate::stack::Stack;

/// What a coroutine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It runs, or will run when its turn comes.
    Ready,
    /// It waits for an `unpark`.
    Parked,
    /// It waits for a lock, or for the end of another coroutine; an `unpark` does not wake it.
    Waiting,
    /// Its function has returned or panicked.
    Finished,
}

/// The control block of a coroutine. It lies at the top of the coroutine's stack, so that a
/// coroutine that waits occupies one allocation; that of the first coroutine lies in the scheduler.
#[repr(C)]
pub(super) struct Control {
    /// The stack pointer, while it does not run.
    sp: UnsafeCell<*mut u8>,
    /// The ring of those that are ready; meaningless while this is not.
    next: Cell<NonNull<Control>>,
    previous: Cell<NonNull<Control>>,
    /// The scheduler of the ring, while it is in one; else null.
    ring: Cell<*const Scheduler>,
    /// The next one in the queue that this waits in.
    queued: Cell<Option<NonNull<Control>>>,
    /// Where a message is taken from or put while this waits for a channel.
    pub slot: Cell<*const ()>,
    pub state: Cell<State>,
    /// Whether an `unpark` has come that no `park` has consumed.
    token: Cell<bool>,
    /// Whether it is ready only to try for a lock that other threads share.
    pub polls: Cell<bool>,
    /// Whether a tick may switch away from it.
    pub preemptible: Cell<bool>,
    /// Handles, and the coroutine itself until it has finished.
    references: Cell<usize>,
    /// Whether a handle waits for what its function returns.
    pub is_wanted: Cell<bool>,
    /// The coroutine that waits for the end of this one.
    pub joiner: Cell<Option<NonNull<Control>>>,
    /// The scope that ends after this one, if there is one.
    pub scope: Option<NonNull<Spawned>>,
    /// The run that it belongs to.
    pub run: u64,
    /// Its memory. The first coroutine has none of its own.
    stack: Cell<Option<Stack>>,
    /// The lowest address that a tick may use of its stack.
    limit: *const u8,
}

impl Control {
    #[inline(always)] // where it will lie: a copy would wait for its parts
    pub fn new(
        run: u64,
        stack: Option<Stack>,
        references: usize,
        scope: Option<NonNull<Spawned>>,
    ) -> Control {
        Control {
            sp: UnsafeCell::new(ptr::null_mut()),
            next: Cell::new(NonNull::dangling()),
            previous: Cell::new(NonNull::dangling()),
            ring: Cell::new(ptr::null()),
            queued: Cell::new(None),
            slot: Cell::new(ptr::null()),
            state: Cell::new(State::Ready),
            token: Cell::new(false),
            polls: Cell::new(false),
            preemptible: Cell::new(false),
            references: Cell::new(references),
            is_wanted: Cell::new(true),
            joiner: Cell::new(None),
            scope,
            run,
            limit: stack.as_ref().map_or(ptr::null(), |stack| stack.limit()),
            stack: Cell::new(stack),
        }
    }

    /// Counts one reference more. Aborts if there are too many, as `Rc` does: a loop that forgets
    /// references can count to any number at once.
    #[inline]
    pub fn add_reference(&self) {
        match self.references.get().checked_add(1) {
            Some(references) => self.references.set(references),
            None => process::abort(),
        }
    }
}

/// A queue of coroutines that wait, first in, first out.
#[derive(Debug)]
pub(super) struct Queue {
    head: Cell<Option<NonNull<Control>>>,
    /// The last one, if there is one at all.
    tail: Cell<NonNull<Control>>,
}

impl Queue {
    pub const fn new() -> Queue {
        Queue {
            head: Cell::new(None),
            tail: Cell::new(NonNull::dangling()),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.get().is_none()
    }

    /// Adds a coroutine that is in no queue.
    ///
    /// # Safety
    ///
    /// It lives until it is taken out.
    #[inline]
    pub unsafe fn push(&self, control: NonNull<Control>) {
        // SAFETY: the caller's promise, for it and for those in the queue.
        unsafe {
            control.as_ref().queued.set(None);
            match self.head.get() {
                None => self.head.set(Some(control)),
                Some(_) => self.tail.get().as_ref().queued.set(Some(control)),
            }
        }
        self.tail.set(control);
    }

    /// Takes the first one out.
    #[inline]
    pub fn pop(&self) -> Option<NonNull<Control>> {
        let first = self.head.get()?;
        // SAFETY: it is in the queue, so it lives (`push`).
        self.head.set(unsafe { first.as_ref() }.queued.get());
        Some(first)
    }

    /// Takes out the first one of a run. Drops those before it: their runs have ended in a
    /// deadlock, so they never run again.
    pub fn pop_of(&self, run: u64) -> Option<NonNull<Control>> {
        // SAFETY: it is in the queue, so it lives (`push`).
        iter::from_fn(|| self.pop()).find(|first| unsafe { first.as_ref() }.run == run)
    }

    /// Takes a coroutine out, wherever it is.
    fn remove(&self, control: NonNull<Control>) {
        let others = Queue::new();
        while let Some(first) = self.pop() {
            if first != control {
                // SAFETY: it was in this queue, so it lives until it is taken out.
                unsafe { others.push(first) };
            }
        }
        self.head.set(others.head.get());
        self.tail.set(others.tail.get());
    }
}

/// What the coroutines do that the running one could let run.
pub(super) enum Others {
    /// One or more run.
    Run,
    /// All that are ready only try for a lock that other threads share.
    Poll,
    /// None is ready.
    Wait,
}

/// The coroutines of a [`scope`](super::scope()), which outlives them.
#[derive(Debug)]
pub(super) struct Spawned {
    /// How many have not finished.
    running: Cell<usize>,
    /// The one that waits until there are none.
    owner: Cell<Option<NonNull<Control>>>,
    /// Whether one has panicked whose outcome no handle has taken.
    pub has_panicked: Cell<bool>,
}

impl Spawned {
    pub const fn new() -> Spawned {
        Spawned {
            running: Cell::new(0),
            owner: Cell::new(None),
            has_panicked: Cell::new(false),
        }
    }

    /// Ends the process if one has not finished, after the end of their run.
    pub fn expect_none(&self) {
        if self.running.get() > 0 {
            deadlock("the run of a scope's coroutines has ended, so they cannot finish");
        }
    }
}

/// What one call of `run` shares among its coroutines. What a switch writes comes first, in one
/// line of the cache.
#[repr(C, align(64))]
pub(super) struct Scheduler {
    current: Cell<NonNull<Control>>,
    /// Whether one of its functions runs.
    inside: AtomicBool,
    /// Whether a tick came that could not switch.
    tick: AtomicBool,
    /// The coroutine that has called `run`.
    first: NonNull<Control>,
    /// Coroutines that have not finished, but for the first.
    live: Cell<usize>,
    /// Whether the first one waits until there are none.
    is_ending: Cell<bool>,
    /// Whether the first one was made ready because no coroutine was.
    is_deadlocked: Cell<bool>,
    /// How many of those that poll yield at their turns before one looks at the ring again.
    unlooked: Cell<usize>,
    /// Finished coroutines whose stacks may be used again, linked by `next`.
    idle: Cell<Option<NonNull<Control>>>,
    stack_size: usize,
    run: u64,
    pub preemption: Option<arch::Preemption>,
}

thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
}

/// Returns this thread's scheduler, if it is in a run: its own word.
#[inline(always)]
pub(super) fn scheduler<'a>() -> Option<&'a Scheduler> {
    // SAFETY: `enter` sets it for the time that the scheduler lives. The caller is one of its
    // coroutines, or a handler on the thread, and these end before.
    unsafe { arch::own().cast::<Scheduler>().as_ref() }
}

/// As [`scheduler`], for functions that need one.
#[inline]
#[track_caller]
pub(super) fn expect_scheduler<'a>() -> &'a Scheduler {
    match scheduler() {
        Some(scheduler) => scheduler,
        None => outside(),
    }
}

#[cold]
#[track_caller]
fn outside() -> ! {
    panic!("not inside of `coroutine::run`, which makes coroutines possible on a thread");
}

/// Returns the control block of the first coroutine of a new run, with one reference.
pub(super) fn first() -> NonNull<Control> {
    RUNS.set(RUNS.get() + 1);
    NonNull::from(Box::leak(Box::new(Control::new(RUNS.get(), None, 1, None))))
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        while let Some(stack) = self.idle() {
            stack.keep();
        }
    }
}

impl Scheduler {
    /// Returns a scheduler whose only coroutine is `first`, which runs.
    ///
    /// # Safety
    ///
    /// `first` is of [`first`], and is released after the scheduler's end.
    pub unsafe fn new(
        first: NonNull<Control>,
        stack_size: usize,
        preemption: Option<arch::Preemption>,
    ) -> Scheduler {
        Scheduler {
            current: Cell::new(first),
            inside: AtomicBool::new(false),
            tick: AtomicBool::new(false),
            first,
            live: Cell::new(0),
            is_ending: Cell::new(false),
            is_deadlocked: Cell::new(false),
            unlooked: Cell::new(0),
            idle: Cell::new(None),
            stack_size,
            // SAFETY: the caller's promise.
            run: unsafe { first.as_ref() }.run,
            preemption,
        }
    }

    /// Calls `f` with this as the thread's scheduler.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Scheduler);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                // SAFETY: it lives as long as the scheduler.
                unsafe { self.0.first.as_ref() }.ring.set(ptr::null());
                arch::set_own(ptr::null());
                compiler_fence(SeqCst);
            }
        }
        self.link_first();
        // A tick finds all of it or none.
        compiler_fence(SeqCst);
        arch::set_own((&raw const *self).cast());
        let _leave = Leave(self);
        f()
    }

    /// Begins a part that no tick may switch away from.
    #[inline]
    pub fn begin(&self) {
        self.inside.store(true, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Ends it, and lets others run if a tick came meanwhile.
    #[inline]
    pub fn end(&self) {
        compiler_fence(SeqCst);
        self.inside.store(false, Relaxed);
        compiler_fence(SeqCst);
        if self.tick.load(Relaxed) {
            self.end_slowly();
        }
    }

    /// Ends a part that was a yield. A tick that came meanwhile stays noted, for the next part.
    #[inline(always)]
    fn end_after_yield(&self) {
        compiler_fence(SeqCst);
        self.inside.store(false, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Ticks that came in the first of several parts without a switch count as one, and one that
    /// came in a part with a switch may end the slice of the coroutine that it led to.
    #[cold]
    fn end_slowly(&self) {
        while self.tick.load(Relaxed) {
            self.tick.store(false, Relaxed);
            if !self.current().preemptible.get() {
                return;
            }
            self.yield_now();
        }
    }

    /// Returns the number of the run.
    #[inline]
    pub fn run(&self) -> u64 {
        self.run
    }

    #[inline]
    pub fn current(&self) -> &Control {
        // SAFETY: the running coroutine's memory stays until it has finished and another one runs.
        unsafe { self.current.get().as_ref() }
    }

    /// Returns a pointer to the running coroutine, with which its memory may be released.
    #[inline]
    pub fn current_pointer(&self) -> NonNull<Control> {
        self.current.get()
    }

    /// Switches to `next`. Called between `begin` and `end`. Returns this scheduler.
    ///
    /// # Safety
    ///
    /// `next` is in the ring, and is not the running one.
    #[inline(always)]
    unsafe fn switch_to(&self, next: NonNull<Control>) -> &Scheduler {
        let from = self.current.replace(next);
        let scheduler: *const Scheduler = self;
        // SAFETY: neither is used by anything else; its stack lives because it has not finished.
        // All switches of a run pass its scheduler on.
        unsafe {
            let (from, to) = (from.as_ref().sp.get(), *next.as_ref().sp.get());
            &*arch::switch(from, to, scheduler.cast()).cast()
        }
    }

    /// Returns the one that runs next, unless it is the running one.
    #[inline(always)]
    fn next(&self) -> Option<NonNull<Control>> {
        let next = self.current().next.get();
        (next != self.current.get()).then_some(next)
    }

    /// Returns what the others do; `Run` also in place of `Poll` and `Wait`, but not for long. The
    /// running coroutine polls.
    ///
    /// One that has looked has seen the others that poll up to the first that does not, or all of
    /// them. They have a turn each before the next look, so a round of turns takes one.
    pub fn others(&self) -> Others {
        self.begin();
        let others = match self.unlooked.get().checked_sub(1) {
            Some(unlooked) => {
                self.unlooked.set(unlooked);
                Others::Run
            }
            None => self.look(),
        };
        self.end();
        others
    }

    fn look(&self) -> Others {
        let mut ring = iter::successors(self.next(), |control| {
            // SAFETY: all of the ring live.
            Some(unsafe { control.as_ref() }.next.get()).filter(|&next| next != self.current.get())
        });
        let mut polling = 0;
        // SAFETY: all of the ring live.
        let polls = |control: NonNull<Control>| unsafe { control.as_ref() }.polls.get();
        let runs = ring.any(|control| {
            polling += usize::from(polls(control));
            !polls(control)
        });
        let (unlooked, others) = match (runs, polling) {
            (true, _) => (polling, Others::Run),
            (false, 0) => (0, Others::Wait),
            // And this one, so that another one looks next.
            (false, _) => (polling + 1, Others::Poll),
        };
        self.unlooked.set(unlooked);
        others
    }

    /// Lets the others run that are ready.
    #[inline(always)]
    pub fn yield_now(&self) {
        self.begin();
        match self.next() {
            // SAFETY: in the ring, and another one.
            Some(next) => unsafe { self.switch_to(next) }.end_after_yield(),
            None => self.end_apart(),
        }
    }

    /// Lets `target` run next. Returns false if it is not in the ring.
    ///
    /// # Safety
    ///
    /// It lives.
    #[inline(always)]
    pub unsafe fn yield_to(&self, target: NonNull<Control>) -> bool {
        self.begin();
        // SAFETY: the caller's promise.
        let is_ready = ptr::eq(unsafe { target.as_ref() }.ring.get(), self);
        if is_ready && target != self.current.get() {
            // SAFETY: in the ring, and another one.
            unsafe { self.switch_to(target) }.end_after_yield();
        } else {
            self.end_apart();
        }
        is_ready
    }

    /// As `end`, apart from the code that usually runs.
    #[cold]
    #[inline(never)]
    fn end_apart(&self) {
        self.end();
    }

    /// Takes the running one out of the ring, which has others.
    #[inline]
    fn unlink(&self) {
        let (previous, next) = (self.current().previous.get(), self.current().next.get());
        self.current().ring.set(ptr::null());
        // SAFETY: all of the ring live.
        unsafe {
            previous.as_ref().next.set(next);
            next.as_ref().previous.set(previous);
        }
    }

    /// Adds a coroutine to the ring, as the last one that runs.
    ///
    /// # Safety
    ///
    /// It lives as long as it is in the ring, and is in none.
    #[inline]
    unsafe fn link(&self, control: NonNull<Control>) {
        let (previous, next) = (self.current().previous.get(), self.current.get());
        // SAFETY: all of the ring live, and `control` does.
        unsafe {
            control.as_ref().previous.set(previous);
            control.as_ref().next.set(next);
            control.as_ref().ring.set(self);
            previous.as_ref().next.set(control);
            next.as_ref().previous.set(control);
        }
    }

    /// Blocks the running coroutine until another one makes it ready again. Returns false if no
    /// other one can: none is ready. Called between `begin` and `end`.
    #[must_use]
    #[inline(always)] // as `yield_now`
    pub fn block(&self, state: State) -> bool {
        debug_assert!(matches!(state, State::Parked | State::Waiting));
        let Some(next) = self.next() else {
            return false;
        };
        self.current().state.set(state);
        self.unlink();
        // SAFETY: `next` is in the ring, and the running one is in it no more.
        unsafe { self.switch_to(next) };
        !self.is_deadlocked.replace(false)
    }

    /// Blocks the running coroutine in `queue` until another one takes it out and makes it ready.
    /// Returns false if none can. It is no longer in the queue then. Called between `begin` and
    /// `end`.
    #[must_use]
    #[inline(always)] // as `yield_now`
    pub fn wait_in(&self, queue: &Queue) -> bool {
        let current = self.current.get();
        // SAFETY: it has not finished while it is in the queue.
        unsafe { queue.push(current) };
        let is_woken = self.block(State::Waiting);
        if !is_woken {
            queue.remove(current);
        }
        is_woken
    }

    /// Makes the first coroutine of `queue` ready. Returns false if none waits there. Called
    /// between `begin` and `end`.
    pub fn wake_one(&self, queue: &Queue) -> bool {
        let first = queue.pop_of(self.run);
        if let Some(first) = first {
            // SAFETY: it was blocked in this queue, of this run.
            unsafe { self.make_ready(first) };
        }
        first.is_some()
    }

    /// Makes all coroutines of `queue` ready, and returns how many there were. Called between
    /// `begin` and `end`.
    pub fn wake_all(&self, queue: &Queue) -> usize {
        iter::from_fn(|| self.wake_one(queue).then_some(())).count()
    }

    /// Makes a blocked coroutine ready. Called between `begin` and `end`.
    ///
    /// # Safety
    ///
    /// It is blocked, belongs to this scheduler, and is in no queue.
    #[inline]
    pub unsafe fn make_ready(&self, control: NonNull<Control>) {
        // SAFETY: the caller's promise; it has not finished, so it lives.
        unsafe {
            control.as_ref().state.set(State::Ready);
            self.link(control);
        }
    }

    /// Waits until the running coroutine has a token, and consumes it. Returns false if no other
    /// coroutine can give it one.
    #[must_use]
    #[inline(always)] // as `yield_now`
    pub fn park(&self) -> bool {
        self.begin();
        let mut can_be = true;
        while !self.current().token.get() && can_be {
            can_be = self.block(State::Parked);
        }
        self.current().token.set(false);
        self.end();
        can_be
    }

    /// Gives a coroutine a token, and makes it ready if it is parked.
    pub fn unpark(&self, control: NonNull<Control>) {
        // SAFETY: the caller has a reference, so it lives.
        let target = unsafe { control.as_ref() };
        self.begin();
        target.token.set(true);
        if target.state.get() == State::Parked {
            // SAFETY: it is parked, so it is in no queue.
            unsafe { self.make_ready(control) };
        }
        self.end();
    }

    /// Waits until `target` has finished. Returns false if it cannot finish any more.
    #[must_use]
    #[inline(always)] // as `yield_now`
    pub fn wait_for_end_of(&self, target: &Control) -> bool {
        self.begin();
        let mut can_be = true;
        while target.state.get() != State::Finished && can_be {
            target.joiner.set(Some(self.current.get()));
            can_be = self.block(State::Waiting);
        }
        target.joiner.set(None);
        self.end();
        can_be
    }

    /// Waits until the coroutines of a scope have finished. Ends the process if they cannot: they
    /// borrow what the caller would drop.
    pub fn wait_for_scope(&self, scope: &Spawned) {
        self.begin();
        while scope.running.get() > 0 {
            scope.owner.set(Some(self.current.get()));
            if !self.block(State::Waiting) {
                deadlock("all coroutines wait, so those of a scope cannot finish");
            }
        }
        self.end();
    }

    /// Lets the others run until all have finished. Returns how many cannot finish any more.
    pub fn wait_for_all(&self) -> usize {
        self.begin();
        let mut can_be = true;
        while self.live.get() > 0 && can_be {
            self.is_ending.set(true);
            can_be = self.block(State::Waiting);
        }
        self.is_ending.set(false);
        self.end();
        self.live.get()
    }

    /// Returns a stack of at least this size, new or used before.
    #[inline]
    pub fn stack(&self) -> io::Result<Stack> {
        self.begin();
        // Inside, too: the list of the thread must not be found in the middle of a change.
        let stack = match self.idle() {
            Some(stack) => Ok(stack),
            None => Stack::take(self.stack_size),
        };
        self.end();
        stack
    }

    /// Takes out an idle stack. Called between `begin` and `end`.
    #[inline]
    fn idle(&self) -> Option<Stack> {
        let finished = self.idle.get()?;
        // SAFETY: it lies on its stack, which is mapped until it is taken out here.
        unsafe {
            self.idle
                .set(Some(finished.as_ref().next.get()).filter(|&next| next != finished));
            finished.as_ref().stack.take()
        }
    }

    /// Adds a coroutine that has not run yet.
    ///
    /// # Safety
    ///
    /// `sp` is of `arch::prepare`, on the stack of `control`, which this owns from now on.
    #[inline]
    pub unsafe fn start(&self, control: NonNull<Control>, sp: *mut u8) {
        self.begin();
        // SAFETY: the caller's promise.
        unsafe {
            *control.as_ref().sp.get() = sp;
            self.link(control);
            if let Some(scope) = control.as_ref().scope {
                let running = &scope.as_ref().running;
                running.set(running.get() + 1);
            }
        }
        self.live.set(self.live.get() + 1);
        self.end();
    }

    /// Ends the running coroutine, which is not the first.
    ///
    /// # Safety
    ///
    /// Nothing on its stack is used any more.
    #[inline(always)] // as `yield_now`
    pub unsafe fn finish(&self) -> ! {
        self.begin();
        let control = self.current.get();
        self.current().state.set(State::Finished);
        self.live.set(self.live.get() - 1);
        if let Some(joiner) = self.current().joiner.get() {
            // SAFETY: it waits for this.
            unsafe { self.make_ready(joiner) };
        }
        if let Some(scope) = self.current().scope {
            // SAFETY: the scope waits for this one, so it lives.
            let scope = unsafe { scope.as_ref() };
            scope.running.set(scope.running.get() - 1);
            if scope.running.get() == 0
                && let Some(owner) = scope.owner.take()
            {
                // SAFETY: it waits for this.
                unsafe { self.make_ready(owner) };
            }
        }
        if self.live.get() == 0 && self.is_ending.get() {
            // SAFETY: it waits for this.
            unsafe { self.make_ready(self.first) };
        }
        let next = match self.next() {
            Some(next) => {
                self.unlink();
                next
            }
            None => {
                self.current().ring.set(ptr::null());
                self.first_of_deadlock()
            }
        };
        // SAFETY: the coroutine's own reference. The stack stays mapped (invariant 4). `next` is
        // ready, and the saved stack pointer of this one is never used.
        unsafe {
            release_inside(self, control);
            self.switch_to(next);
        }
        unreachable!("a finished coroutine does not run");
    }

    /// Makes the first coroutine ready where none is: it has not finished, so it is blocked, and
    /// its wait ends here.
    #[cold]
    fn first_of_deadlock(&self) -> NonNull<Control> {
        self.is_deadlocked.set(true);
        // SAFETY: it lives as long as the scheduler.
        unsafe { self.first.as_ref() }.state.set(State::Ready);
        self.link_first();
        self.first
    }

    /// Makes a ring of the first coroutine alone, which is in none.
    fn link_first(&self) {
        // SAFETY: it lives as long as the scheduler.
        let first = unsafe { self.first.as_ref() };
        first.next.set(self.first);
        first.previous.set(self.first);
        first.ring.set(self);
    }

    /// Returns whether the handler of ticks may make the running coroutine call
    /// [`yield_preempted`](Scheduler::yield_preempted).
    pub fn may_preempt(&self) -> bool {
        !self.inside.load(Relaxed) && self.current().preemptible.get() && self.next().is_some()
    }

    /// Notes a tick that could not preempt: the running coroutine yields at its next call of this
    /// module, if that is in a region that allows it.
    pub fn note_tick(&self) {
        self.tick.store(true, Relaxed);
    }

    /// Lets the others run that are ready, after a tick.
    pub fn yield_preempted(&self) {
        self.yield_now();
    }

    /// Returns the lowest address that a tick may use on the running coroutine's stack.
    pub fn limit(&self) -> *const u8 {
        self.current().limit
    }

    /// Returns the size of the running coroutine's stack, if its guard page contains `address`.
    pub fn overflowed(&self, address: usize) -> Option<usize> {
        // SAFETY: only looks; the owner takes the stack out when it has finished.
        let stack = unsafe { &*self.current().stack.as_ptr() }.as_ref();
        stack.filter(|stack| stack.guards(address)).map(Stack::size)
    }
}

/// Calls `f` in a part that no tick may switch away from, with the thread's scheduler. Outside of a
/// run, no tick switches.
#[inline]
pub(super) fn inside<R>(f: impl FnOnce(Option<&Scheduler>) -> R) -> R {
    let Some(scheduler) = scheduler() else {
        return f(None);
    };
    scheduler.begin();
    let result = f(Some(scheduler));
    scheduler.end();
    result
}

/// Ends the process. Does not unwind, also where nothing can be written.
#[cold]
pub(super) fn deadlock(why: &str) -> ! {
    let _ = writeln!(io::stderr(), "atomseq-threads: deadlock: {why}");
    process::abort()
}

/// Releases a reference to a coroutine, and with the last one its stack.
///
/// # Safety
///
/// The caller owns the reference. If it is the last one, what the function returned was taken out
/// or dropped.
#[inline]
pub(super) unsafe fn release(control: NonNull<Control>) {
    // SAFETY: the caller's promise.
    unsafe {
        let run = control.as_ref().run;
        match scheduler().filter(|scheduler| scheduler.run == run) {
            Some(scheduler) => {
                scheduler.begin();
                release_inside(scheduler, control);
                scheduler.end();
            }
            // Its run has ended. If it has not finished, its stack may hold what others borrow.
            None if control.as_ref().state.get() != State::Finished => {}
            None if !is_last(control) => {}
            None => match control.as_ref().stack.take() {
                Some(stack) => drop(stack),
                None => free_first(control),
            },
        }
    }
}

/// # Safety
///
/// As [`release`], between `begin` and `end`.
#[inline]
unsafe fn release_inside(scheduler: &Scheduler, control: NonNull<Control>) {
    // SAFETY: the caller's promise. It lies on its stack: the run has a reference to the first one.
    unsafe {
        if is_last(control) {
            // The last one leads to itself.
            let next = scheduler.idle.replace(Some(control)).unwrap_or(control);
            control.as_ref().next.set(next);
        }
    }
}

/// Releases a reference. Returns whether it was the last one.
///
/// # Safety
///
/// The caller owns the reference.
#[inline]
unsafe fn is_last(control: NonNull<Control>) -> bool {
    // SAFETY: a reference, so it lives.
    let alive = unsafe { control.as_ref() };
    let references = alive.references.get() - 1;
    alive.references.set(references);
    references == 0
}

/// # Safety
///
/// `control` is of [`first`], and has no reference.
#[cold]
unsafe fn free_first(control: NonNull<Control>) {
    // SAFETY: the caller's promise.
    inside(|_| drop(unsafe { Box::from_raw(control.as_ptr()) }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::Control;

    /// In the environment of the process that ends.
    const CHILD: &str = "ATOMSEQ_THREADS_REFERENCES";

    #[test]
    fn too_many_references_end_the_process() {
        if std::env::var(CHILD).is_ok() {
            let control = Control::new(1, None, usize::MAX - 1, None);
            control.add_reference();
            assert_eq!(control.references.get(), usize::MAX);
            control.add_reference();
            unreachable!("no more can be counted");
        }
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "coroutine::scheduler::tests::too_many_references_end_the_process",
        ]);
        let status = child.env(CHILD, "").output().unwrap().status;
        assert_eq!(status.signal(), Some(libc::SIGABRT));
    }
}
