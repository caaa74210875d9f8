//! How a runtime's thread lends its stack to one that it waits for (`runtime/lending.rs` and
//! `runtime/state.rs` of atomseq-threads) under shuttle. No kernel thread is left, or one comes at
//! any time. Requests come to the waiter and to the new thread, and the waiter is preempted before
//! and after its wait. The new thread runs once, and no offer is used that is over. Runs the
//! crate's own source.
//!
//! Each protection is removed in turn, by a mutation of the source (`mutations/`), and must be
//! detected.

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;

use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize};
use shuttle::sync::{Condvar, Mutex};
use verify_model::controls;
use verify_model::controls::shuttle_thread as thread;
use verify_model::controls::{Attempt, Orders, all_hold};

/// The module on which the crate's sources are built.
mod sync {
    pub use shuttle::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
    pub use shuttle::thread::yield_now;
}

/// What taking a thread from the queue led to.
#[derive(PartialEq)]
enum Taken {
    New,
    Started,
    Stopped,
}

/// The state of a thread, unchanged or mutated.
trait State: Send + Sync + 'static {
    fn new() -> Self;
    fn take(&self) -> Taken;
    fn take_waiting(&self) -> bool;
    fn preempt(&self);
    /// Returns whether the thread has left RUNNING.
    fn wait(&self) -> bool;
    fn wake(&self) -> bool;
    fn suspend(&self);
    fn resume(&self) -> bool;
    fn signal(&self) -> bool;
    fn answer(&self);
    fn kill(&self) -> bool;
    fn is_killed(&self) -> bool;
    fn finish(&self);
}

/// The part of a carrier that lends, unchanged or mutated.
trait Lending: Send + Sync + 'static {
    fn new() -> Self;
    fn offer(&self, awaited: *mut ());
    fn withdraw(&self, awaited: *mut ());
    fn offers(&self, awaited: *mut ()) -> bool;
    fn claim(&self, awaited: *mut (), take: impl FnOnce() -> bool) -> bool;
    fn bring(&self, task: *mut ());
    fn receive(&self) -> *mut ();
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type State = state::State;
            type Lending = lending::Lending;
        }

        impl crate::State for state::State {
            fn new() -> Self {
                state::State::new()
            }
            fn take(&self) -> crate::Taken {
                match self.take() {
                    state::Taken::New => crate::Taken::New,
                    state::Taken::Started => crate::Taken::Started,
                    state::Taken::Stopped => crate::Taken::Stopped,
                }
            }
            fn take_waiting(&self) -> bool {
                self.take_waiting()
            }
            fn preempt(&self) {
                self.preempt();
            }
            fn wait(&self) -> bool {
                self.wait(state::REQUESTS) == state::Wait::Begun
            }
            fn wake(&self) -> bool {
                self.wake()
            }
            fn suspend(&self) {
                self.suspend(state::STOPME);
            }
            fn resume(&self) -> bool {
                self.resume()
            }
            fn signal(&self) -> bool {
                self.request(state::SIGNALLED)
            }
            fn answer(&self) {
                self.answer(state::SIGNALLED);
            }
            fn kill(&self) -> bool {
                self.request(state::KILLED)
            }
            fn is_killed(&self) -> bool {
                self.requests() & state::KILLED != 0
            }
            fn finish(&self) {
                self.finish();
            }
        }

        impl crate::Lending for lending::Lending {
            fn new() -> Self {
                lending::Lending::new()
            }
            fn offer(&self, awaited: *mut ()) {
                self.offer(awaited);
            }
            fn withdraw(&self, awaited: *mut ()) {
                self.withdraw(awaited);
            }
            fn offers(&self, awaited: *mut ()) -> bool {
                self.offers(awaited)
            }
            fn claim(&self, awaited: *mut (), take: impl FnOnce() -> bool) -> bool {
                self.claim(awaited, take)
            }
            fn bring(&self, task: *mut ()) {
                self.bring(task);
            }
            fn receive(&self) -> *mut () {
                self.receive()
            }
        }
    };
}

/// A variant of the sources.
trait Library: 'static {
    type State: State;
    type Lending: Lending;
}

include!(concat!(env!("OUT_DIR"), "/lending.rs"));

/// The entry of the new thread: an address that is compared only.
const NEW: *mut () = ptr::without_provenance_mut(64);

/// A thread that waits for the new one, and its kernel thread.
struct Waiter<L: Library> {
    state: L::State,
    lending: L::Lending,
    /// Where it is preempted: between its offer and its wait, and between its wait and the
    /// withdrawal.
    is_preempted: bool,
    is_running: AtomicBool,
    /// Whether its current wait is one for which its offer holds.
    is_offering: AtomicBool,
    has_finished: AtomicBool,
    /// The turn that was granted, and the thread that it brings or null, as a number.
    granted: Mutex<Option<usize>>,
    has_turn: Condvar,
}

/// Waiters, the new thread, and the queue of a worker without a spare kernel thread.
struct World<L: Library> {
    waiters: Vec<Waiter<L>>,
    state: L::State,
    runs: AtomicUsize,
    has_finished: AtomicBool,
    has_spare: AtomicBool,
    /// The numbers of waiters; one more than the last one is the new thread.
    queue: Mutex<VecDeque<usize>>,
}

impl<L: Library> World<L> {
    fn push(&self, number: usize) {
        let mut queue = self.queue.lock().unwrap();
        assert!(!queue.contains(&number), "in the queue twice");
        queue.push_back(number);
    }

    fn push_new(&self) {
        self.push(self.waiters.len());
    }

    fn is_over(&self) -> bool {
        let has_finished = |waiter: &Waiter<L>| waiter.has_finished.load(SeqCst);
        self.has_finished.load(SeqCst) && self.waiters.iter().all(has_finished)
    }

    /// Grants a turn to a waiter that was taken.
    fn grant(&self, number: usize, brings: *mut ()) {
        let waiter = &self.waiters[number];
        assert!(!waiter.is_running.swap(true, SeqCst), "runs twice");
        let before = waiter.granted.lock().unwrap().replace(brings.addr());
        assert_eq!(before, None, "granted twice");
        waiter.has_turn.notify_one();
    }

    /// Pops and passes turns on until all is over.
    fn schedule(&self) {
        while !self.is_over() {
            let popped = self.queue.lock().unwrap().pop_front();
            match popped {
                None => thread::yield_now(),
                Some(number) if number < self.waiters.len() => {
                    if self.waiters[number].state.take() == Taken::Started {
                        self.grant(number, ptr::null_mut());
                    }
                }
                Some(_) if self.has_spare.load(SeqCst) => {
                    if self.state.take() == Taken::New {
                        self.run_new();
                    }
                }
                Some(_) => self.lend(),
            }
        }
    }

    /// As `take_with_waiter`.
    fn lend(&self) {
        let waits = |waiter: &Waiter<L>| {
            waiter.lending.offers(NEW)
                && waiter.lending.claim(NEW, || {
                    let is_taken = waiter.state.take_waiting();
                    assert!(!waiter.has_finished.load(SeqCst), "the waiter is gone");
                    let is_offering = waiter.is_offering.load(SeqCst);
                    assert!(!is_taken || is_offering, "taken from another wait");
                    is_taken
                })
        };
        match self.waiters.iter().position(waits) {
            Some(number) if self.state.take() == Taken::New => self.grant(number, NEW),
            Some(number) => self.grant(number, ptr::null_mut()),
            None => {
                self.push_new();
                thread::yield_now();
            }
        }
    }

    /// Runs the new thread, on whatever kernel thread.
    fn run_new(&self) {
        assert_eq!(self.runs.fetch_add(1, SeqCst), 0, "runs twice");
        thread::yield_now();
        self.has_finished.store(true, SeqCst);
        self.state.finish();
        for (number, waiter) in self.waiters.iter().enumerate() {
            if waiter.state.wake() {
                self.push(number);
            }
        }
    }

    /// Waits for a turn, after the thread has left RUNNING.
    fn wait_for_turn(&self, waiter: &Waiter<L>) {
        let mut granted = waiter.granted.lock().unwrap();
        while granted.is_none() {
            granted = waiter.has_turn.wait(granted).unwrap();
        }
        let brings = granted.take().expect("it was granted");
        drop(granted);
        waiter.lending.bring(ptr::without_provenance_mut(brings));
    }

    fn be_preempted(&self, number: usize) {
        let waiter = &self.waiters[number];
        if waiter.is_preempted {
            waiter.is_running.store(false, SeqCst);
            waiter.state.preempt();
            self.push(number);
            self.wait_for_turn(waiter);
        }
    }

    /// As `wait_or_run`; without an offer if the stack is used up.
    fn wait_or_run(&self, number: usize, offers: bool) {
        let waiter = &self.waiters[number];
        if offers {
            waiter.is_offering.store(true, SeqCst);
            waiter.lending.offer(NEW);
        }
        self.be_preempted(number);
        waiter.is_running.store(false, SeqCst);
        match waiter.state.wait() {
            true => self.wait_for_turn(waiter),
            false => waiter.is_running.store(true, SeqCst),
        }
        self.be_preempted(number);
        waiter.lending.withdraw(NEW);
        waiter.is_offering.store(false, SeqCst);
        if waiter.lending.receive() == NEW {
            self.run_new();
        }
    }

    /// Runs a waiter: it joins the new thread, and then waits for something else.
    fn join(&self, number: usize) {
        let waiter = &self.waiters[number];
        self.wait_for_turn(waiter);
        let mut rounds = 0;
        while !waiter.state.is_killed() && rounds < 2 {
            thread::yield_now();
            waiter.state.answer();
            let has_finished = self.has_finished.load(SeqCst);
            if has_finished {
                rounds += 1;
                // An event that comes in a moment.
                if waiter.state.wake() {
                    self.push(number);
                }
            }
            self.wait_or_run(number, !has_finished);
        }
        waiter.is_running.store(false, SeqCst);
        waiter.has_finished.store(true, SeqCst);
        waiter.state.finish();
    }

    fn signal(&self) {
        if self.waiters[0].state.signal() {
            self.push(0);
        }
    }

    /// Destroys the first waiter. Another kernel thread comes for the new thread, some time after
    /// the waiter is gone.
    fn destroy_waiter(&self) {
        if self.waiters[0].state.kill() {
            self.push(0);
        }
        while !self.waiters[0].has_finished.load(SeqCst) {
            thread::yield_now();
        }
        (0..20).for_each(|_| thread::yield_now());
        self.has_spare.store(true, SeqCst);
    }

    fn suspend_and_resume_waiter(&self) {
        self.waiters[0].state.suspend();
        if self.waiters[0].state.resume() {
            self.push(0);
        }
    }

    fn suspend_and_resume_new(&self) {
        self.state.suspend();
        thread::yield_now();
        if self.state.resume() {
            self.push_new();
        }
    }

    fn destroy_new(&self) {
        if self.state.kill() {
            self.push_new();
        }
    }

    fn bring_spare(&self) {
        self.has_spare.store(true, SeqCst);
    }
}

type Requester<L> = fn(&World<L>);

/// What a kernel thread does.
type Work<L> = Box<dyn FnOnce(&World<L>) + Send>;

/// Runs this number of waiters and two schedulers, beside these requesters.
fn world<L: Library>(waiters: usize, is_preempted: bool, requesters: &[Requester<L>]) {
    let waiter = |_| Waiter {
        state: L::State::new(),
        lending: L::Lending::new(),
        is_preempted,
        is_running: AtomicBool::new(false),
        is_offering: AtomicBool::new(false),
        has_finished: AtomicBool::new(false),
        granted: Mutex::new(None),
        has_turn: Condvar::new(),
    };
    let world = Arc::new(World::<L> {
        waiters: (0..waiters).map(waiter).collect(),
        state: L::State::new(),
        runs: AtomicUsize::new(0),
        has_finished: AtomicBool::new(false),
        has_spare: AtomicBool::new(false),
        queue: Mutex::new(VecDeque::new()),
    });
    // They have begun.
    for number in 0..waiters {
        assert!(world.waiters[number].state.take() == Taken::New);
        world.grant(number, ptr::null_mut());
    }
    world.push_new();
    let mut works: Vec<Work<L>> = Vec::new();
    for number in 0..waiters {
        works.push(Box::new(move |world| world.join(number)));
    }
    works.push(Box::new(World::schedule));
    works.push(Box::new(World::schedule));
    for &requester in requesters {
        works.push(Box::new(requester));
    }
    let threads: Vec<_> = works
        .into_iter()
        .map(|work| {
            let world = Arc::clone(&world);
            thread::spawn(move || work(&world))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.runs.load(SeqCst), 1);
}

fn all<L: Library>() -> Vec<(&'static str, fn())> {
    vec![
        ("a join", || world::<L>(1, false, &[])),
        ("a join that is preempted", || world::<L>(1, true, &[])),
        ("a join and a scope that wait for the same", || {
            world::<L>(2, false, &[]);
        }),
        ("a kernel thread comes", || {
            world::<L>(1, false, &[World::bring_spare]);
        }),
        ("a kernel thread comes, while two are preempted", || {
            world::<L>(2, true, &[World::bring_spare]);
        }),
        ("the waiter is signalled", || {
            world::<L>(1, true, &[World::signal, World::signal]);
        }),
        ("the waiter is destroyed", || {
            world::<L>(1, true, &[World::destroy_waiter]);
        }),
        ("one of two waiters is destroyed", || {
            world::<L>(2, false, &[World::destroy_waiter]);
        }),
        ("the waiter is suspended and resumed", || {
            world::<L>(1, true, &[World::suspend_and_resume_waiter]);
        }),
        ("the new thread is suspended and resumed", || {
            let twice: [Requester<L>; 2] = [World::suspend_and_resume_new; 2];
            world::<L>(1, false, &twice);
        }),
        (
            "the new thread is suspended by one and destroyed by another",
            || {
                let both: [Requester<L>; 2] = [World::suspend_and_resume_new, World::destroy_new];
                world::<L>(2, false, &both);
            },
        ),
    ]
}

/// Returns all models, each in this number of orders.
fn attempts_in<L: Library>(count: usize) -> impl Iterator<Item = Attempt<Orders>> {
    all::<L>()
        .into_iter()
        .map(move |(name, model)| (name, Orders::drawn(count, 20_000), model))
}

fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    attempts_in::<L>(3_000)
}

/// 1,500 random orders of each model.
#[test]
fn a_stack_is_lent_once_and_only_by_a_thread_that_waits() {
    let attempts = attempts_in::<as_it_is::This>;
    all_hold("lending", "ATOMSEQ_STATES_ORDERS", 1_500, attempts);
}
