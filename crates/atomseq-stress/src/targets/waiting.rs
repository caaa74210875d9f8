//! What threads sleep for: a token behind a condition variable, a permit of a semaphore.
//!
//! A thread that takes one gives it back without waiting for another thread. So a thread that
//! sleeps indefinitely has missed its wake-up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::{Condvar, Mutex, Semaphore};

use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::{Activity, Lane};
use crate::engine::{Sabotage, Setting};

/// How many lanes may have a permit at once.
const PERMITS: u64 = 2;

/// Tokens and permits.
pub struct Waiting {
    tokens: Mutex<u64>,
    some: Condvar,
    /// How many tokens there are: fewer than lanes that want one.
    all: u64,
    permits: Semaphore,
    /// How many lanes have one.
    permitted: AtomicU64,
    /// Whether notifications are omitted: the fault that must be detected.
    is_silent: bool,
}

impl Waiting {
    /// Returns all tokens and all permits.
    pub fn new(setting: &mut Setting) -> Waiting {
        let all = setting.rng.u64(1..=3);
        Waiting {
            tokens: Mutex::new(all),
            some: Condvar::new(),
            all,
            permits: Semaphore::new(PERMITS as u32),
            permitted: AtomicU64::new(0),
            is_silent: setting.sabotage == Some(Sabotage::Oversleep),
        }
    }

    /// Waits for a token, takes it, and puts it back.
    pub fn use_token(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Condition);
        let mut tokens = self.tokens.lock();
        if lane.one_in(4) {
            let (patience, start) = (any_patience(lane), Instant::now());
            let none = |tokens: &mut u64| *tokens == 0;
            let waited = self.some.wait_while_for(&mut tokens, none, patience);
            if waited.timed_out() {
                let passed = start.elapsed();
                drop(tokens);
                return check_not_early(patience, passed);
            }
        } else {
            self.some.wait_while(&mut tokens, |tokens| *tokens == 0);
        }
        *tokens -= 1;
        drop(tokens);
        match lane.rng.u32(..8) {
            0 => thread::yield_now(),
            _ => (0..lane.rng.u32(..50)).for_each(|_| std::hint::spin_loop()),
        }
        *self.tokens.lock() += 1;
        self.notify(lane);
        Ok(())
    }

    fn notify(&self, lane: &mut Lane) {
        match lane.rng.u32(..8) {
            _ if self.is_silent => {}
            0 => _ = self.some.notify_all(),
            _ => _ = self.some.notify_one(),
        }
    }

    /// Notifies from a handler, which must not wait: a sleeper that is woken without a token waits
    /// again. Checks that there are not too many tokens.
    pub fn notify_from_handler(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Condition);
        if let Some(tokens) = self.tokens.try_lock().filter(|tokens| **tokens > self.all) {
            let violation = Violation::new("there are more tokens than at first");
            return Err(violation.with("tokens", *tokens).with("at first", self.all));
        }
        self.notify(lane);
        Ok(())
    }

    /// Acquires a permit and releases it; or fails to acquire one.
    pub fn use_permit(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Semaphore);
        let permit = match lane.rng.u32(..4) {
            0 => self.permits.try_acquire(),
            1 => {
                let (patience, start) = (any_patience(lane), Instant::now());
                let permit = self.permits.try_acquire_for(patience);
                if permit.is_none() {
                    check_not_early(patience, start.elapsed())?;
                }
                permit
            }
            _ => Some(self.permits.acquire()),
        };
        match permit {
            Some(_permit) => self.count_permits(lane),
            None => Ok(()),
        }
    }

    /// Does the same in a handler, which must not wait.
    pub fn use_permit_from_handler(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Semaphore);
        match self.permits.try_acquire() {
            Some(_permit) => self.count_permits(lane),
            None => Ok(()),
        }
    }

    fn count_permits(&self, lane: &mut Lane) -> Checked {
        // Relaxed: a count is exact without any order.
        let others = self.permitted.fetch_add(1, Ordering::Relaxed);
        (0..lane.rng.u32(..50)).for_each(|_| std::hint::spin_loop());
        self.permitted.fetch_sub(1, Ordering::Relaxed);
        if others >= PERMITS {
            let violation = Violation::new("more lanes had a permit than there are permits");
            return Err(violation.with("lanes", others + 1).with("permits", PERMITS));
        }
        Ok(())
    }

    /// Makes the final check, after all threads have stopped.
    pub fn check_final(&self) -> Checked {
        equal(
            "tokens were lost or duplicated",
            *self.tokens.lock(),
            self.all,
        )?;
        equal(
            "permits were lost or duplicated",
            self.permits.permits().into(),
            PERMITS,
        )
    }
}

/// Returns a random timeout, which is mostly too short.
pub fn any_patience(lane: &mut Lane) -> Duration {
    Duration::from_micros(lane.rng.u64(..200))
}

/// Checks that a wait did not time out before its time.
pub fn check_not_early(patience: Duration, passed: Duration) -> Checked {
    if passed >= patience {
        return Ok(());
    }
    let violation = Violation::new("a wait timed out too early");
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    Err(violation
        .with("nanoseconds", nanoseconds(passed))
        .with("of", nanoseconds(patience)))
}
