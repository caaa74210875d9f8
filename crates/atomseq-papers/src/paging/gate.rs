//! The gate of an object.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::handler;

/// How long a thread waits before it looks again whether it has closed a gate: if it blocks the
/// signal, a handler that interrupts the wait leaves gates closed.
const PAUSE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// The gate of an object whose pages may fault. A sequence on the object tests it first:
///
/// ```
/// atomseq::sequence! {
///     /// Moves an amount from one word to another. 0: the gate was closed, and nothing happened.
///     pub unsafe fn transfer(gate: Word, from: Word, to: Word, amount: Word) -> Word {
///         let closed = load(gate);
///         if closed != 0 { return 0 }
///         let had = load(from);
///         let has = load(to);
///         store(from, had - amount);
///         store(to, has + amount);
///         1
///     }
/// }
/// ```
///
/// It is closed from the first fault of a thread's sequence until that sequence has ended and the
/// thread has handled the signal that was given to [`start`](super::start). A thread that blocks
/// that signal, runs a handler, or is inside a mask keeps the gate closed for longer. If it exits
/// before it has handled the signal, the gate stays closed, unless a later thread that has its
/// number opens its own. A handler of a fault, or one that reports
/// [`Inside`](atomseq::signal::Interrupted::Inside), opens the gate in the middle of the sequence
/// if it unblocks the signal. A thread that finds it closed [waits](Gate::wait), and tries again.
/// In the child of a fork, gates that threads of the parent have closed stay closed, the forking
/// thread's own among them: the signal that would open them is not pending in the child.
///
/// A rollforward may also be abandoned because of other faults, such as those of pages with another
/// gate or none. Then the gate is open while a handler reports `Inside`, which must not let other
/// threads run.
///
/// A fault closes the gate of its own page only. Objects that one sequence changes together have
/// one gate, which is not in a region itself.
///
/// It keeps out the threads that run while that sequence waits for its page, as those of M94's one
/// processor do. A thread that runs at the same time on another processor, or that the kernel has
/// preempted in its sequence, may have found it open before: such threads need a lock. To a gate,
/// the coroutines of a kernel thread are one thread.
///
/// Only sequences of `atomseq::sequence!` close it: a fault in the middle of one that runs by a
/// scheme of [`rollforward`](crate::rollforward) leaves it open.
#[derive(Debug, Default)]
#[repr(C, align(8))]
pub struct Gate {
    /// The thread that has closed it, or 0.
    owner: AtomicU32,
    /// Zero: a sequence loads a whole word.
    rest: AtomicU32,
}

impl Gate {
    /// Makes an open gate.
    pub const fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            rest: AtomicU32::new(0),
        }
    }

    /// Returns the address of the word that is zero while the gate is open.
    pub fn word(&self) -> usize {
        ptr::from_ref(self).expose_provenance()
    }

    /// Returns whether it is closed.
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `open`.
        self.owner.load(Ordering::Acquire) != 0
    }

    /// Waits until the gate is open. Meanwhile opens all gates that this thread has closed, for
    /// which it looks at each page of each region, as the handler of the signal does.
    ///
    /// So a handler of the closing thread does not wait, but opens it: a handler runs after the
    /// sequence. One that may run in its middle must not call this: a handler of a fault or of
    /// `SIGABRT`, what a [`Region`](super::Region) calls while it waits for a page, a handler that
    /// reports [`Inside`](atomseq::signal::Interrupted::Inside) because the rollforward was
    /// abandoned, and a handler that `atomseq::signal` has not installed.
    pub fn wait(&self) {
        loop {
            // Acquire: pairs with the Release in `open`.
            let owner = self.owner.load(Ordering::Acquire);
            if owner == 0 {
                return;
            }
            // Otherwise two threads would wait for each other's gates, which they keep closed
            // because they are in handlers or inside masks.
            handler::open_own();
            if self.open(owner, this_thread()) {
                return;
            }
            let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word and the time live through the call.
            unsafe { libc::syscall(libc::SYS_futex, self.owner.as_ptr(), wait, owner, &PAUSE) };
        }
    }

    /// Closes it for this thread. Returns whether it was open. Async-signal-safe.
    pub(super) fn close(&self) -> bool {
        // Acquire: pairs with the Release in `open`. Relaxed: nothing is read after a failure.
        self.owner
            .compare_exchange(0, this_thread(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Opens it if `this_thread`, the calling one, has closed it. Async-signal-safe.
    pub(super) fn open_own(&self, this_thread: u32) {
        // Relaxed: only this thread stores its own number.
        self.open(self.owner.load(Ordering::Relaxed), this_thread);
    }

    /// Opens it if its owner, which was `owner`, is `this_thread`, the calling one. Returns whether
    /// it is.
    fn open(&self, owner: u32, this_thread: u32) -> bool {
        if owner != this_thread {
            return false;
        }
        // Not a store: a handler of this thread may have opened it since, and another thread closed
        // it. Release: pairs with the Acquires above, so that a thread that finds it open sees the
        // sequence's stores. Relaxed: nothing is read after a failure.
        let opened = self
            .owner
            .compare_exchange(owner, 0, Ordering::Release, Ordering::Relaxed);
        if opened.is_err() {
            return false;
        }
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the address of a word; its value is not read.
        unsafe { libc::syscall(libc::SYS_futex, self.owner.as_ptr(), wake, i32::MAX) };
        true
    }
}

/// Returns the calling thread's number, which is not 0. Async-signal-safe.
pub(super) fn this_thread() -> u32 {
    // SAFETY: takes no argument and has no precondition.
    unsafe { libc::gettid() as u32 }
}
