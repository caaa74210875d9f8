//! The protocol between threads that close gates and threads that fork: at the moment of a fork no
//! gate is closed, and none will be closed until the fork is over.
//!
//! Forks also exclude one another. A forking thread may have an atfork handler that closes gates,
//! uncounted. They are open again before its own fork copies the process, but another thread's fork
//! must not copy them meanwhile.
//!
//! Neither a closer nor a fork waits indefinitely for another thread's fork, because it may hold
//! what that fork waits for. A closer may run in a signal handler that interrupted `malloc`, whose
//! locks the C library takes before it copies the process. A thread may fork while it holds a
//! recursive lock that an atfork handler of the other fork waits for. So each waits a few
//! milliseconds. Then the closer proceeds uncounted; the fork proceeds beside the other one, but is
//! counted and waits for all counted closers.
//!
//! A child may thus find a gate closed by a closer that waited too long, or by another forking
//! thread's handler if forks overlap. The child takes the gate over (see `percpu/lock.rs`).

use crate::sync::{AtomicU32, Ordering, Patience, wait, wake_all};

/// The state. The low 20 bits of `word` count threads that may close gates; the bits above count
/// forks in progress. (Exactly 4,096 simultaneous forks count as none, and closers do not wait for
/// them.)
pub(super) struct Traffic {
    pub(super) word: AtomicU32,
    /// The number of threads that wait to be counted. The next fork lets them enter first.
    /// Otherwise forks in close succession would starve them.
    pub(super) waiting: AtomicU32,
}

const FORK: u32 = 1 << 20;
const CLOSERS: u32 = FORK - 1;

/// How many milliseconds a closer or a fork waits for the end of another thread's fork.
pub(super) const MILLISECONDS: u32 = 4;

impl Traffic {
    /// Asks the next fork to wait briefly.
    pub(super) fn begin_to_wait(&self) {
        // Relaxed, here and below: the count is a request and orders nothing.
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Withdraws a [`begin_to_wait`](Traffic::begin_to_wait).
    pub(super) fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        wake_all(&self.waiting);
    }

    /// Counts this thread as one that may close gates. Returns `false` if a fork is in progress.
    pub(super) fn try_enter(&self) -> bool {
        // Relaxed: the exchange checks the value.
        let mut word = self.word.load(Ordering::Relaxed);
        while word < FORK {
            // Acquire: pairs with the Release in `forked`, so that this thread sees what ran during
            // the fork. Relaxed: a failure retries.
            match self.word.compare_exchange_weak(
                word,
                word + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Sleeps briefly while a fork is in progress. Returns `false` if the waiting time is over.
    pub(super) fn await_fork(&self, patience: &mut Patience) -> bool {
        // Relaxed: only the exchange that follows decides.
        let word = self.word.load(Ordering::Relaxed);
        word < FORK || patience.sleep(&self.word, word)
    }

    /// Ends a [`try_enter`](Traffic::try_enter).
    pub(super) fn leave(&self) {
        // Release: pairs with the Acquire in `fork`, so that the child's copy contains everything
        // done inside.
        let before = self.word.fetch_sub(1, Ordering::Release);
        if before > FORK && before & CLOSERS == 1 {
            wake_all(&self.word);
        }
    }

    /// Waits a bounded time until no other fork is in progress, and for threads that wait for that.
    /// Then counts this fork, which makes new closers wait. Returns once no counted thread may
    /// close a gate.
    pub(super) fn fork(&self) {
        let mut patience = Patience::new(MILLISECONDS);
        let mut courtesy = Patience::new(MILLISECONDS);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let waiting = self.waiting.load(Ordering::Relaxed);
            let has_slept = match word >= FORK {
                true => patience.sleep(&self.word, word),
                // Waiting threads can enter only now.
                false => waiting > 0 && courtesy.sleep(&self.waiting, waiting),
            };
            if has_slept {
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            let begun = word.wrapping_add(FORK);
            // Relaxed: the loop below has the Acquire.
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self
                .word
                .compare_exchange_weak(word, begun, success, failure)
            {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        loop {
            // Acquire: pairs with the Release in `leave`.
            let word = self.word.load(Ordering::Acquire);
            if word & CLOSERS == 0 {
                return;
            }
            wait(&self.word, word);
        }
    }

    /// Ends a [`fork`](Traffic::fork).
    pub(super) fn forked(&self) {
        // Release: pairs with the Acquire in `try_enter`.
        self.word.fetch_sub(FORK, Ordering::Release);
        wake_all(&self.word);
    }
}
