//! Lists of threads, linked through their entries, so that a push takes no memory and never fails.
//!
//! A thread is in one list at a time, and in no queue meanwhile: the list has the reference that a
//! queue would have.

use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Relaxed, SeqCst},
};
use std::iter;

use super::task::{Header, Task};

/// A stack of which all are taken at once, so that no entry is looked at which another thread has
/// taken. A handler may push.
pub(super) struct Stack(AtomicPtr<Header>);

impl Stack {
    pub const fn new() -> Stack {
        Stack(AtomicPtr::new(ptr::null_mut()))
    }

    pub fn is_empty(&self) -> bool {
        self.0.load(SeqCst).is_null()
    }

    pub fn push(&self, task: Task) {
        let task = task.into_raw();
        let mut first = self.0.load(SeqCst);
        loop {
            // SAFETY: the list's reference. Relaxed: the exchange below publishes it.
            unsafe { (*task).next.store(first, Relaxed) };
            match self.0.compare_exchange(first, task, SeqCst, SeqCst) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes all, the newest first.
    pub fn take_all(&self) -> impl Iterator<Item = Task> {
        let mut next = match self.is_empty() {
            true => ptr::null_mut(),
            false => self.0.swap(ptr::null_mut(), SeqCst),
        };
        iter::from_fn(move || {
            // SAFETY: the reference of `push`, once: this alone has the rest.
            let task = (!next.is_null()).then(|| unsafe { Task::from_raw(next) })?;
            next = task.next.load(Relaxed);
            Some(task)
        })
    }
}

/// A list of which the oldest is popped first, by one kernel thread at a time.
pub(super) struct Fifo {
    pushed: Stack,
    /// Those that were taken from there, the oldest first. Accessed by the kernel thread that pops.
    ordered: AtomicPtr<Header>,
    is_popped: AtomicBool,
}

impl Fifo {
    pub const fn new() -> Fifo {
        Fifo {
            pushed: Stack::new(),
            ordered: AtomicPtr::new(ptr::null_mut()),
            is_popped: AtomicBool::new(false),
        }
    }

    /// Returns false also while a kernel thread pops. In this order: after a pop that has taken all
    /// of `pushed`, those are in `ordered`.
    pub fn is_empty(&self) -> bool {
        let is_popped = || self.is_popped.load(SeqCst);
        self.pushed.is_empty() && !is_popped() && self.ordered.load(SeqCst).is_null()
    }

    /// Adds a thread at the end.
    pub fn push(&self, task: Task) {
        self.pushed.push(task);
    }

    /// Pops the oldest thread. Returns `None` also while another kernel thread, or what a handler
    /// has interrupted, pops one.
    pub fn pop(&self) -> Option<Task> {
        if self.is_empty() || self.is_popped.swap(true, SeqCst) {
            return None;
        }
        // Relaxed, here and below: `is_popped` publishes it. SeqCst for `is_empty`.
        let mut first = self.ordered.load(Relaxed);
        if first.is_null() {
            for task in self.pushed.take_all() {
                task.next.store(first, Relaxed);
                first = task.into_raw();
            }
        }
        // SAFETY: the reference of `push`, once: this alone pops.
        let task = (!first.is_null()).then(|| unsafe { Task::from_raw(first) });
        if let Some(task) = &task {
            self.ordered.store(task.next.load(Relaxed), SeqCst);
        }
        self.is_popped.store(false, SeqCst);
        task
    }
}
