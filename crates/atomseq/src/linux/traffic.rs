//! The agreement between threads that close gates and threads that fork: at the moment of a fork,
//! no gate is closed and none will be closed until the fork is over.
//!
//! Forks follow one another too. A forking thread may have an atfork handler that closes gates,
//! uncounted: they are open again before its own fork copies the process, and another thread's fork
//! should not copy them meanwhile.
//!
//! Neither a closer nor a fork waits for another thread's fork indefinitely, since it may hold what
//! that fork waits for. A closer may run in a signal handler that interrupted `malloc`, whose locks
//! the C library takes before it copies the process. A thread may fork while it holds a recursive
//! lock that an atfork handler of the other fork waits for. So each waits for a few milliseconds.
//! Then the closer goes on uncounted, and the fork beside the other one: it is counted and waits
//! for all counted closers.
//!
//! So a child may find a gate closed by a closer that was kept waiting too long, or by another
//! forking thread's handler if forks overlap. It takes the gate over (see `percpu/lock.rs`).

use crate::sync::{AtomicU32, Ordering, Patience, wait, wake_all};

/// Low 20 bits: threads that may close gates. Above: forks under way. (Exactly 4,096 at a time
/// count as none: closers do not wait for them.)
pub(super) struct Traffic {
    pub(super) word: AtomicU32,
    /// How many threads wait to be counted. The next fork lets them in first: else forks that
    /// follow one another closely would keep them out.
    pub(super) waiting: AtomicU32,
}

const FORK: u32 = 1 << 20;
const CLOSERS: u32 = FORK - 1;

/// For how many milliseconds a closer or a fork waits for the end of another thread's fork.
pub(super) const MILLISECONDS: u32 = 4;

impl Traffic {
    /// Asks the next fork to wait a little.
    pub(super) fn begin_to_wait(&self) {
        // Relaxed, here and below: a request.
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes a [`begin_to_wait`](Traffic::begin_to_wait).
    pub(super) fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        wake_all(&self.waiting);
    }

    /// Counts this thread as one that may close gates; `false`: a fork is under way.
    pub(super) fn try_enter(&self) -> bool {
        // Relaxed: the exchange looks again.
        let mut word = self.word.load(Ordering::Relaxed);
        while word < FORK {
            // Acquire: pairs with the Release in `forked`, so that what ran during the fork is
            // seen.
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

    /// Sleeps a little while a fork is under way; `false`: there is no patience left.
    pub(super) fn await_fork(&self, patience: &mut Patience) -> bool {
        // Relaxed: only the exchange counts that follows.
        let word = self.word.load(Ordering::Relaxed);
        word < FORK || patience.sleep(&self.word, word)
    }

    /// Undoes a [`try_enter`](Traffic::try_enter).
    pub(super) fn leave(&self) {
        // Release: pairs with the Acquire in `fork`: the child's copy holds all that was done
        // inside.
        let before = self.word.fetch_sub(1, Ordering::Release);
        if before > FORK && before & CLOSERS == 1 {
            wake_all(&self.word);
        }
    }

    /// Waits a little until no other fork is under way, and for threads that wait for that. Then
    /// counts this one: new closers wait. Returns once no counted thread may close a gate.
    pub(super) fn fork(&self) {
        let mut patience = Patience::new(MILLISECONDS);
        let mut courtesy = Patience::new(MILLISECONDS);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let waiting = self.waiting.load(Ordering::Relaxed);
            let has_slept = match word >= FORK {
                true => patience.sleep(&self.word, word),
                // They can come in only now.
                false => waiting > 0 && courtesy.sleep(&self.waiting, waiting),
            };
            if has_slept {
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            let begun = word.wrapping_add(FORK);
            // Relaxed: the loop below has the ordering.
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
