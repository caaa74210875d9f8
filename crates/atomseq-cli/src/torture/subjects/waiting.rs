//! What threads sleep for: a token behind a condition variable, a permit of a semaphore.
//!
//! Whoever takes one gives it back, and needs nobody for that: whoever sleeps for ever has been
//! forgotten.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::mutex::{Condvar, Mutex, Semaphore};

use crate::torture::harness::Setting;
use crate::torture::harness::lane::{Doing, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::targets::counter::equal;

/// How many may have a permit at once.
const PERMITS: u64 = 2;

/// Tokens and permits.
pub struct Waiting {
    tokens: Mutex<u64>,
    some: Condvar,
    /// How many tokens there are, fewer than lanes that want one.
    all: u64,
    permits: Semaphore,
    /// How many have one.
    permitted: AtomicU64,
    /// The fault that must be noticed: nobody hears of tokens that are put back.
    is_silent: bool,
}

impl Waiting {
    /// All tokens, all permits.
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

    /// Takes a token out, once there is one, and puts it back.
    pub fn have_token(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Condition);
        let mut tokens = self.tokens.lock();
        if lane.one_in(4) {
            let (patience, start) = (any_patience(lane), Instant::now());
            let none = |tokens: &mut u64| *tokens == 0;
            let waited = self.some.wait_while_for(&mut tokens, none, patience);
            if waited.timed_out() {
                let passed = start.elapsed();
                drop(tokens);
                return not_early(patience, passed);
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
            0 => self.some.notify_all(),
            _ => self.some.notify_one(),
        }
    }

    /// From a handler, which waits for nothing: there are never more tokens than all, and whoever
    /// sleeps looks again.
    pub fn notify_from_handler(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Condition);
        if let Some(tokens) = self.tokens.try_lock().filter(|tokens| **tokens > self.all) {
            let law = Broken::new("there are more tokens than were put in");
            return Err(law.with("tokens", *tokens).with("put in", self.all));
        }
        self.notify(lane);
        Ok(())
    }

    /// Has a permit for a moment.
    pub fn have_permit(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Semaphore);
        let permit = match lane.rng.u32(..4) {
            0 => self.permits.try_acquire(),
            1 => {
                let (patience, start) = (any_patience(lane), Instant::now());
                let permit = self.permits.try_acquire_for(patience);
                if permit.is_none() {
                    not_early(patience, start.elapsed())?;
                }
                permit
            }
            _ => Some(self.permits.acquire()),
        };
        match permit {
            Some(_permit) => self.look_around(lane),
            None => Ok(()),
        }
    }

    /// The same from a handler, which waits for nothing.
    pub fn interrupt(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Semaphore);
        match self.permits.try_acquire() {
            Some(_permit) => self.look_around(lane),
            None => Ok(()),
        }
    }

    fn look_around(&self, lane: &mut Lane) -> Checked {
        // Relaxed: the semaphore orders nothing that one would see here too early; a count is exact
        // in itself.
        let others = self.permitted.fetch_add(1, Ordering::Relaxed);
        (0..lane.rng.u32(..50)).for_each(|_| std::hint::spin_loop());
        self.permitted.fetch_sub(1, Ordering::Relaxed);
        if others >= PERMITS {
            let law = Broken::new("more had a permit than there are");
            return Err(law.with("had one", others + 1).with("permits", PERMITS));
        }
        Ok(())
    }

    /// All have stopped.
    pub fn settle(&self) -> Checked {
        equal(
            "tokens were lost, or came twice",
            *self.tokens.lock(),
            self.all,
        )?;
        equal(
            "permits were lost, or came twice",
            self.permits.permits().into(),
            PERMITS,
        )
    }
}

/// Mostly too short.
pub fn any_patience(lane: &mut Lane) -> Duration {
    Duration::from_micros(lane.rng.u64(..200))
}

/// Whoever waits so long must not be sent away earlier.
pub fn not_early(patience: Duration, passed: Duration) -> Checked {
    if passed >= patience {
        return Ok(());
    }
    let law = Broken::new("a wait with a limit ended before its time, without success");
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    Err(law
        .with("nanoseconds", nanoseconds(passed))
        .with("of", nanoseconds(patience)))
}
