//! The states of a runtime's threads (`runtime/state.rs` of atomseq-threads; S92, figure 5.10)
//! under shuttle. Requests come while a thread runs, waits, is preempted or is suspended. It is in
//! one queue at most, runs on one scheduler at a time, and finishes. Runs the crate's own source.
//!
//! Each protection is removed in turn, by a mutation of the source (`mutations/`), and must be
//! detected.

use std::sync::Arc;

use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::sync::atomic::{AtomicBool, AtomicUsize};
use shuttle::sync::{Condvar, Mutex};
use verify_model::controls;
use verify_model::controls::shuttle_thread as thread;
use verify_model::controls::{Attempt, Orders, all_hold};

/// The module on which the crate's source is built.
mod sync {
    pub use shuttle::sync::atomic::{AtomicU32, Ordering};
}

/// The outcome of an attempt to wait.
enum Wait {
    Begun,
    Over,
    Request,
}

/// The requests, by the names of the source.
#[derive(Clone, Copy)]
enum Request {
    Stop,
    Signal,
    Kill,
}

/// The source, unchanged or mutated.
trait State: Send + Sync + 'static {
    fn new() -> Self;
    /// Returns false if the thread is suspended now.
    fn take(&self) -> bool;
    fn take_waiting(&self) -> bool;
    fn is_requested(&self, request: Request) -> bool;
    fn is_stopped(&self) -> bool;
    fn yield_now(&self);
    fn preempt(&self);
    fn stop(&self) -> bool;
    fn park(&self) -> Wait;
    fn wait(&self) -> Wait;
    fn unpark(&self) -> bool;
    fn wake(&self) -> bool;
    fn suspend(&self);
    fn resume(&self) -> bool;
    fn step(&self) -> bool;
    fn request(&self, request: Request) -> bool;
    fn answer(&self, request: Request) -> bool;
    fn finish(&self);
}

macro_rules! library {
    () => {
        pub struct This;

        impl crate::Library for This {
            type State = state::State;
        }

        fn word(request: crate::Request) -> u32 {
            match request {
                crate::Request::Stop => state::STOPME,
                crate::Request::Signal => state::SIGNALLED,
                crate::Request::Kill => state::KILLED,
            }
        }

        fn wait(wait: state::Wait) -> crate::Wait {
            match wait {
                state::Wait::Begun => crate::Wait::Begun,
                state::Wait::Over => crate::Wait::Over,
                state::Wait::Request => crate::Wait::Request,
            }
        }

        impl crate::State for state::State {
            fn new() -> Self {
                state::State::new()
            }
            fn take(&self) -> bool {
                self.take() != state::Taken::Stopped
            }
            fn take_waiting(&self) -> bool {
                self.take_waiting()
            }
            fn is_requested(&self, request: crate::Request) -> bool {
                self.requests() & word(request) != 0
            }
            fn is_stopped(&self) -> bool {
                self.is_stopped()
            }
            fn yield_now(&self) {
                self.yield_now();
            }
            fn preempt(&self) {
                self.preempt();
            }
            fn stop(&self) -> bool {
                self.stop()
            }
            fn park(&self) -> crate::Wait {
                wait(self.park(state::REQUESTS))
            }
            fn wait(&self) -> crate::Wait {
                wait(self.wait(state::REQUESTS))
            }
            fn unpark(&self) -> bool {
                self.unpark()
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
            fn step(&self) -> bool {
                self.step()
            }
            fn request(&self, request: crate::Request) -> bool {
                self.request(word(request))
            }
            fn answer(&self, request: crate::Request) -> bool {
                self.answer(word(request))
            }
            fn finish(&self) {
                self.finish();
            }
        }
    };
}

/// A variant of the source.
trait Library: 'static {
    type State: State;
}

include!(concat!(env!("OUT_DIR"), "/states.rs"));

/// What the thread of a model does.
#[derive(Clone, Copy)]
enum Body {
    /// Parks once.
    Parks,
    /// Waits for the event.
    Waits,
    /// Yields that often.
    Yields(usize),
    /// Is preempted once, while it holds a lock.
    IsPreempted,
}

/// A thread, the queue that it may be in, and what happened to it.
struct Machine<S> {
    state: S,
    body: Body,
    /// How often it is in the queue, and whether it has finished.
    queue: Mutex<(usize, bool)>,
    changed: Condvar,
    is_running: AtomicBool,
    /// Whether it has just been stopped at a checkpoint, where it goes on.
    was_stopped: AtomicBool,
    has_event: AtomicBool,
    holds_lock: AtomicBool,
    turns: AtomicUsize,
    pending: AtomicUsize,
    answered: AtomicUsize,
    is_killed: AtomicBool,
}

impl<S: State> Machine<S> {
    fn push(&self) {
        let mut queue = self.queue.lock().unwrap();
        queue.0 += 1;
        assert_eq!(queue.0, 1, "in the queue twice");
        self.changed.notify_one();
    }

    fn is_done(&self) -> bool {
        self.queue.lock().unwrap().1
    }

    fn finish(&self) {
        assert!(!self.holds_lock.load(SeqCst), "finished with a lock");
        self.is_running.store(false, SeqCst);
        self.state.finish();
        self.queue.lock().unwrap().1 = true;
        self.changed.notify_all();
    }

    /// Before a change that lets another scheduler run the thread.
    fn leave(&self) {
        self.is_running.store(false, SeqCst);
    }

    fn stay(&self) {
        self.is_running.store(true, SeqCst);
    }

    /// Pops and runs the thread until it has finished.
    fn schedule(&self) {
        loop {
            let mut queue = self.queue.lock().unwrap();
            while *queue == (0, false) {
                queue = self.changed.wait(queue).unwrap();
            }
            if queue.1 {
                return;
            }
            queue.0 = 0;
            drop(queue);
            // Before the attempt: a thread that is suspended may be resumed at once, and acquire
            // the lock elsewhere.
            let holds_lock = self.holds_lock.load(SeqCst);
            if !self.state.take() {
                assert!(!holds_lock, "suspended with a lock");
                continue;
            }
            assert!(!self.is_running.swap(true, SeqCst), "runs twice");
            self.run();
        }
    }

    /// Answers requests. Returns false if the thread does not go on now.
    fn checkpoint(&self) -> bool {
        let mut may_stop = !self.was_stopped.swap(false, SeqCst);
        loop {
            if self.state.is_requested(Request::Kill) {
                self.is_killed.store(true, SeqCst);
                self.finish();
                return false;
            } else if self.state.is_requested(Request::Signal) {
                self.state.answer(Request::Signal);
                self.answered
                    .fetch_add(self.pending.swap(0, SeqCst), SeqCst);
            } else if may_stop && self.state.is_requested(Request::Stop) {
                self.leave();
                self.was_stopped.store(true, SeqCst);
                if self.state.stop() {
                    return false;
                }
                self.was_stopped.store(false, SeqCst);
                self.stay();
                may_stop = false;
            } else {
                return true;
            }
        }
    }

    /// Runs the thread until it leaves its scheduler.
    fn run(&self) {
        loop {
            if let Body::IsPreempted = self.body {
                if self.turns.fetch_add(1, SeqCst) == 0 {
                    self.holds_lock.store(true, SeqCst);
                    self.leave();
                    self.state.preempt();
                    return self.push();
                }
                self.holds_lock.store(false, SeqCst);
            }
            if !self.checkpoint() {
                return;
            }
            self.leave();
            let wait = match self.body {
                Body::Parks => self.state.park(),
                Body::Waits if self.has_event.load(SeqCst) => Wait::Over,
                Body::Waits => self.state.wait(),
                Body::Yields(turns) if self.turns.fetch_add(1, SeqCst) < turns => {
                    self.state.yield_now();
                    return self.push();
                }
                Body::Yields(_) | Body::IsPreempted => Wait::Over,
            };
            match wait {
                Wait::Begun => return,
                Wait::Request => self.stay(),
                // The event may be another one's.
                Wait::Over if matches!(self.body, Body::Waits) && !self.has_event.load(SeqCst) => {
                    self.stay();
                }
                Wait::Over => return self.finish(),
            }
        }
    }

    fn unpark(&self) {
        if self.state.unpark() {
            self.push();
        }
    }

    fn event(&self) {
        self.has_event.store(true, SeqCst);
        if self.state.wake() {
            self.push();
        }
    }

    /// Takes the thread from its wait, and runs it.
    fn borrow(&self) {
        if self.state.take_waiting() {
            assert!(!self.is_running.swap(true, SeqCst), "runs twice");
            self.run();
        }
    }

    fn resume(&self) {
        if self.state.resume() {
            self.push();
        }
    }

    fn suspend_and_resume(&self) {
        self.state.suspend();
        self.resume();
    }

    fn signal(&self) {
        self.pending.fetch_add(1, SeqCst);
        if self.state.request(Request::Signal) {
            self.push();
        }
    }

    fn destroy(&self) {
        if self.state.request(Request::Kill) {
            self.push();
        }
    }

    /// Waits until the thread is suspended. Returns false if it has finished instead.
    fn is_suspended(&self) -> bool {
        while !self.state.is_stopped() {
            if self.is_done() {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    /// Suspends the thread, and lets it make two steps: from a place in the queue to the next
    /// checkpoint, and from there to the queue.
    fn step_twice(&self) {
        self.state.suspend();
        if self.is_suspended() {
            let before = self.turns.load(SeqCst);
            for steps in 1..=2 {
                assert!(self.state.step(), "a suspended thread steps");
                self.push();
                let is_suspended = self.is_suspended();
                let turns = self.turns.load(SeqCst) - before;
                assert!(turns <= steps, "a step went on");
                if !is_suspended {
                    return;
                }
            }
            let turns = self.turns.load(SeqCst) - before;
            assert!(turns > 0, "two steps led nowhere");
        }
        self.resume();
    }
}

type Requester<L> = fn(&Machine<<L as Library>::State>);

/// Runs a thread of this body on two schedulers, beside these requesters.
fn machine<L: Library>(body: Body, requesters: &[Requester<L>]) -> Arc<Machine<L::State>> {
    let machine = Arc::new(Machine {
        state: L::State::new(),
        body,
        queue: Mutex::new((0, false)),
        changed: Condvar::new(),
        is_running: AtomicBool::new(false),
        was_stopped: AtomicBool::new(false),
        has_event: AtomicBool::new(false),
        holds_lock: AtomicBool::new(false),
        turns: AtomicUsize::new(0),
        pending: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
        is_killed: AtomicBool::new(false),
    });
    machine.push();
    let scheduler: Requester<L> = Machine::schedule;
    let all = [scheduler, scheduler].into_iter();
    let threads: Vec<_> = all
        .chain(requesters.iter().copied())
        .map(|work| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || work(&machine))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(machine.is_done());
    assert!(!machine.is_running.load(SeqCst));
    machine
}

fn all<L: Library>() -> Vec<(&'static str, fn())> {
    vec![
        ("an unpark", || {
            machine::<L>(Body::Parks, &[Machine::unpark]);
        }),
        ("two unparks", || {
            machine::<L>(Body::Parks, &[Machine::unpark, Machine::unpark]);
        }),
        ("an event, beside an unpark", || {
            machine::<L>(Body::Waits, &[Machine::event, Machine::unpark]);
        }),
        ("taken from its wait by two, beside an event", || {
            let all: [Requester<L>; 3] = [Machine::borrow, Machine::borrow, Machine::event];
            machine::<L>(Body::Waits, &all);
        }),
        ("taken from its wait, and destroyed", || {
            let both: [Requester<L>; 2] = [Machine::borrow, Machine::destroy];
            let machine = machine::<L>(Body::Waits, &both);
            assert!(machine.is_killed.load(SeqCst));
        }),
        ("suspended, resumed, unparked", || {
            machine::<L>(Body::Parks, &[Machine::suspend_and_resume, Machine::unpark]);
        }),
        ("suspended and resumed by two", || {
            let both: [Requester<L>; 2] = [Machine::suspend_and_resume; 2];
            machine::<L>(Body::Yields(2), &both);
        }),
        ("signalled, unparked", || {
            let both: [Requester<L>; 2] = [Machine::signal, Machine::unpark];
            machine::<L>(Body::Parks, &both);
        }),
        ("signalled twice, and then destroyed", || {
            let work: Requester<L> = |machine| {
                machine.signal();
                machine.signal();
                while machine.answered.load(SeqCst) < 2 {
                    thread::yield_now();
                }
                machine.destroy();
            };
            machine::<L>(Body::Parks, &[work]);
        }),
        ("destroyed in a park", || {
            let machine = machine::<L>(Body::Parks, &[Machine::destroy]);
            assert!(machine.is_killed.load(SeqCst));
        }),
        ("destroyed in a wait", || {
            let machine = machine::<L>(Body::Waits, &[Machine::destroy]);
            assert!(machine.is_killed.load(SeqCst));
        }),
        ("suspended, and destroyed by another", || {
            let suspends: Requester<L> = |machine| machine.state.suspend();
            machine::<L>(Body::Parks, &[suspends, Machine::destroy]);
        }),
        ("preempted, suspended, resumed", || {
            machine::<L>(Body::IsPreempted, &[Machine::suspend_and_resume]);
        }),
        ("stepped", || {
            machine::<L>(Body::Yields(3), &[Machine::step_twice]);
        }),
    ]
}

/// Returns all models, each in this number of orders.
fn attempts_in<L: Library>(count: usize) -> impl Iterator<Item = Attempt<Orders>> {
    all::<L>()
        .into_iter()
        .map(move |(name, model)| (name, Orders::drawn(count, 5_000), model))
}

fn attempts<L: Library>() -> impl Iterator<Item = Attempt<Orders>> {
    attempts_in::<L>(4_000)
}

/// 2,000 random orders of each model.
#[test]
fn a_thread_is_neither_lost_nor_run_twice() {
    let attempts = attempts_in::<as_it_is::This>;
    all_hold("states", "ATOMSEQ_STATES_ORDERS", 2_000, attempts);
}
