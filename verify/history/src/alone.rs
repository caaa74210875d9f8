//! One trial at a time, and what is said when it does not get on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::patience::Patience;
use crate::said::{say, say_panics};
use crate::stops::steps;
use crate::whereabouts;

/// How much CPU time a history may take: far more than any does. The histories of a trial take as
/// long as they are many.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often somebody looks whether the trial gets on.
const LOOK: Duration = Duration::from_millis(100);

/// Whoever looks for the threads' whereabouts in a process that hangs may come to hang as well: it
/// ends after so many seconds.
const LAST_WORDS: u32 = 30;

/// One trial at a time: breakpoints and handlers are the process's. It ends the process if the
/// trial does not get on (see [`Spent`](crate::patience::Spent)), and says what every thread is at.
pub struct Alone {
    over: Arc<AtomicBool>,
    _one: MutexGuard<'static, ()>,
}

/// How often this process got on: histories that have ended, and calls that were followed to find
/// places.
static GOT_ON: AtomicU64 = AtomicU64::new(0);

/// Says that a history has ended, or that a call has been followed.
pub(crate) fn one_more() {
    GOT_ON.fetch_add(1, Ordering::Relaxed);
}

/// A count that stays as it is while nothing gets on. An operation that is followed takes a step at
/// a time, which where each costs a way through hypervisors may be long; there is a limit to the
/// steps.
fn got_on() -> u64 {
    GOT_ON.load(Ordering::Relaxed) + steps()
}

/// What this process is at, for messages.
static DOING: Mutex<String> = Mutex::new(String::new());

/// Says what comes next.
pub(crate) fn now_doing(what: String) {
    *DOING.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

impl Alone {
    /// Keeps other trials out.
    pub fn in_trial(name: &str) -> Alone {
        Alone::with_patience(name, PATIENCE)
    }

    /// The same, with another patience.
    pub fn with_patience(name: &str, patience: Duration) -> Alone {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        say_panics();
        let (over, name) = (Arc::new(AtomicBool::new(false)), name.to_string());
        let told = over.clone();
        // Never joined: it ends when the trial has ended, or ends the process.
        thread::spawn(move || watch(&name, patience, &told));
        Alone { over, _one: one }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn watch(name: &str, most: Duration, over: &AtomicBool) {
    let before = GOT_ON.load(Ordering::Relaxed);
    let (mut last, mut patience) = (got_on(), Patience::of(most));
    while !over.load(Ordering::Relaxed) {
        let now = got_on();
        let spent = patience.is_over();
        if now != last {
            last = now;
            patience.renew();
        } else if let Some(spent) = spent {
            // SAFETY: only says when this process ends.
            unsafe { libc::alarm(LAST_WORDS) };
            say(format!(
                "{name}: an operation never ends, or takes longer than {most:?}, after {} histories and calls that were followed; since then {spent}; ",
                GOT_ON.load(Ordering::Relaxed) - before
            ));
            // Whoever has it may be the one that hangs.
            match DOING.try_lock() {
                Ok(doing) => say(doing.as_bytes()),
                Err(_) => say("being told what comes next"),
            }
            say("\n");
            whereabouts::say_all();
            std::process::abort();
        }
        thread::sleep(LOOK);
    }
}
