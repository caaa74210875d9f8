//! Forks against closers: a child never finds a gate closed, and no thread waits indefinitely.

use std::sync::Arc;

use crate::lock::{lock, unlock};
use crate::sync::Size::{Large, Small};
use crate::sync::{
    AtomicU32, Mutex, Ordering, Patience, be_hasty, fails, holds, is_hasty, thread, wait, wake_all,
};
use crate::traffic::{MILLISECONDS, Traffic};

/// The interface used by the handlers around a fork and by the closing of a gate.
trait Agreement: Send + Sync + 'static {
    fn new() -> Self;
    /// Returns `false` if the thread is not counted.
    fn enter(&self) -> bool;
    fn leave(&self);
    fn fork(&self);
    fn forked(&self);
}

impl Agreement for Traffic {
    fn new() -> Traffic {
        Traffic {
            word: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
        }
    }
    fn enter(&self) -> bool {
        let mut patience = Patience::new(MILLISECONDS);
        while !self.try_enter() {
            if !self.await_fork(&mut patience) {
                return false;
            }
        }
        true
    }
    fn leave(&self) {
        self.leave();
    }
    fn fork(&self) {
        self.fork();
    }
    fn forked(&self) {
        self.forked();
    }
}

struct Process<A> {
    agreement: A,
    gate: AtomicU32,
}

impl<A: Agreement> Process<A> {
    fn new() -> Arc<Process<A>> {
        Arc::new(Process {
            agreement: A::new(),
            gate: AtomicU32::new(0),
        })
    }

    /// Closes the gate and opens it again, inside a quiet region.
    fn close(&self) {
        let counted = self.agreement.enter();
        assert!(counted || is_hasty(), "not counted, and not kept waiting");
        self.close_uncounted();
        if counted {
            self.agreement.leave();
        }
    }

    /// The same on a thread that is forking.
    fn close_uncounted(&self) {
        lock(&self.gate);
        unlock(&self.gate);
    }

    /// Forks; runs `handler`, an atfork handler, on this thread between prepare and parent.
    fn fork(&self, handler: impl FnOnce(&Self)) {
        self.agreement.fork();
        handler(self);
        self.copy();
        self.agreement.forked();
    }

    /// Checks the memory that the child receives.
    fn copy(&self) {
        let gate = self.gate.load(Ordering::Acquire);
        assert_eq!(gate & 1, 0, "the child's gate is closed indefinitely");
        let gate = self.gate.load(Ordering::Acquire);
        assert_eq!(gate & 1, 0, "a gate was closed during the fork");
    }
}

fn fork_and_close<A: Agreement>(closers: usize) {
    let process = Process::<A>::new();
    let closing: Vec<_> = (0..closers)
        .map(|_| {
            let process = process.clone();
            thread::spawn(move || process.close())
        })
        .collect();
    process.fork(|_| {});
    for closing in closing {
        closing.join().unwrap();
    }
}

/// A thread changes handlers, and asks forks to admit it.
fn fork_and_change() {
    let process = Process::<Traffic>::new();
    let changing = {
        let process = process.clone();
        thread::spawn(move || {
            process.agreement.begin_to_wait();
            process.close();
            process.agreement.end_wait();
        })
    };
    process.fork(|_| {});
    changing.join().unwrap();
}

/// Two threads fork; on one of them a handler closes the gate in between.
fn two_forks<A: Agreement>() {
    let process = Process::<A>::new();
    let other = {
        let process = process.clone();
        thread::spawn(move || process.fork(|_| {}))
    };
    process.fork(Process::close_uncounted);
    other.join().unwrap();
}

#[test]
fn a_child_finds_every_gate_open() {
    holds("fork: one closer", Small, || fork_and_close::<Traffic>(1));
    holds("fork: two closers", Large, || fork_and_close::<Traffic>(2));
    holds("fork: a change of handlers", Small, fork_and_change);
    holds(
        "fork: two forks, one with a handler",
        Small,
        two_forks::<Traffic>,
    );
}

/// A thread closes a gate while it holds a lock that the C library acquires in every fork, as a
/// handler does that has interrupted `malloc`.
fn fork_and_close_in_malloc() {
    let process = Process::<Traffic>::new();
    let malloc = Arc::new(Mutex::new(()));
    let closing = {
        let (process, malloc) = (process.clone(), malloc.clone());
        thread::spawn(move || {
            let _interrupted = malloc.lock().unwrap();
            process.close();
        })
    };
    process.agreement.fork();
    drop(malloc.lock().unwrap());
    process.agreement.forked();
    closing.join().unwrap();
}

#[test]
fn a_closer_does_not_wait_for_a_fork_that_waits_for_it() {
    let name = "fork: a closer that waits indefinitely, and holds a lock that the fork needs";
    fails(name, "deadlock", Small, fork_and_close_in_malloc);
    be_hasty();
    let name = "fork: a closer that has a lock that the fork needs";
    holds(name, Small, fork_and_close_in_malloc);
}

/// A thread forks while it holds a recursive lock for which an atfork handler of the other fork
/// waits.
fn two_forks_under_a_lock() {
    let process = Process::<Traffic>::new();
    let lock = Arc::new(Mutex::new(()));
    let other = {
        let (process, lock) = (process.clone(), lock.clone());
        thread::spawn(move || process.fork(|_| drop(lock.lock().unwrap())))
    };
    let held = lock.lock().unwrap();
    process.fork(|_| {});
    drop(held);
    other.join().unwrap();
    let left = process.agreement.word.load(Ordering::Relaxed);
    assert_eq!(left, 0, "a fork or a closer is still counted");
}

#[test]
fn a_fork_does_not_wait_for_one_that_waits_for_it() {
    let name = "fork: a fork that waits indefinitely, and holds a lock that the other one needs";
    fails(name, "deadlock", Small, two_forks_under_a_lock);
    be_hasty();
    let name = "fork: a fork that has a lock that the other one needs";
    holds(name, Small, two_forks_under_a_lock);
}

/// Two forks overlap, while a third thread closes a gate if it is counted.
fn overlapping_forks_and_a_closer<A: Agreement>() {
    let process = Process::<A>::new();
    let other = {
        let process = process.clone();
        thread::spawn(move || process.fork(|_| {}))
    };
    let closing = {
        let process = process.clone();
        thread::spawn(move || {
            if process.agreement.enter() {
                process.close_uncounted();
                process.agreement.leave();
            }
        })
    };
    process.fork(|_| {});
    other.join().unwrap();
    closing.join().unwrap();
}

/// The library's agreement, but the first fork to end ends all.
struct EndsAll(Traffic);

impl Agreement for EndsAll {
    fn new() -> EndsAll {
        EndsAll(Agreement::new())
    }
    fn enter(&self) -> bool {
        self.0.enter()
    }
    fn leave(&self) {
        self.0.word.fetch_sub(1, Ordering::Release);
        wake_all(&self.0.word);
    }
    fn fork(&self) {
        self.0.fork();
    }
    fn forked(&self) {
        self.0.word.fetch_and(0xfffff, Ordering::Release);
        wake_all(&self.0.word);
    }
}

#[test]
fn forks_that_overlap_are_both_counted() {
    be_hasty();
    holds(
        "fork: two that overlap, and a closer",
        Large,
        overlapping_forks_and_a_closer::<Traffic>,
    );
    fails(
        "fork: the first to end ends both",
        "closed",
        Large,
        overlapping_forks_and_a_closer::<EndsAll>,
    );
}

/// Closers are counted, and forks wait for them, but not for each other.
struct ForksMeet(AtomicU32);

impl Agreement for ForksMeet {
    fn new() -> ForksMeet {
        ForksMeet(AtomicU32::new(0))
    }
    fn enter(&self) -> bool {
        self.0.fetch_add(1, Ordering::Acquire);
        true
    }
    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
        wake_all(&self.0);
    }
    fn fork(&self) {
        self.0.fetch_add(1 << 20, Ordering::Relaxed);
        loop {
            let word = self.0.load(Ordering::Acquire);
            if word & 0xfffff == 0 {
                return;
            }
            wait(&self.0, word);
        }
    }
    fn forked(&self) {
        self.0.fetch_sub(1 << 20, Ordering::Release);
        wake_all(&self.0);
    }
}

/// No thread waits for another.
struct NoAgreement;

impl Agreement for NoAgreement {
    fn new() -> NoAgreement {
        NoAgreement
    }
    fn enter(&self) -> bool {
        true
    }
    fn leave(&self) {}
    fn fork(&self) {}
    fn forked(&self) {}
}

/// The library's agreement, but the last closer to leave wakes no waiter.
struct NoWake(Traffic);

impl Agreement for NoWake {
    fn new() -> NoWake {
        NoWake(Agreement::new())
    }
    fn enter(&self) -> bool {
        self.0.enter()
    }
    fn leave(&self) {
        self.0.word.fetch_sub(1, Ordering::Release);
    }
    fn fork(&self) {
        self.0.fork();
    }
    fn forked(&self) {
        self.0.forked();
    }
}

#[test]
fn a_fork_that_does_not_wait_is_found() {
    fails("fork: no agreement", "closed", Small, || {
        fork_and_close::<NoAgreement>(1);
    });
    fails(
        "fork: closers that do not wait",
        "during the fork",
        Small,
        || {
            fork_and_close::<ForksMeet>(1);
        },
    );
    fails(
        "fork: two at a time",
        "the child's gate",
        Small,
        two_forks::<ForksMeet>,
    );
    fails("fork: a lost wake-up", "deadlock", Small, || {
        fork_and_close::<NoWake>(1);
    });
}
