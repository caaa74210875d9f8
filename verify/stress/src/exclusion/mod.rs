//! Does a lock keep others out? Counted, under the harshest schedule that its mechanism's scope
//! has.
//!
//! | scope | schedule |
//! |---|---|
//! | `Machine` | [`machine`]: more threads than CPUs, moved from one to another all the time |
//! | `SameCpu` | [`one_cpu`]: threads of one CPU, preempted, and their sections aborted by another CPU's fences |
//! | `SameThread` | [`handlers`]: signals as fast as can be sent, whose handlers want the lock, too |
//!
//! [`section`] is what the lock guards, [`locks`] has locks that are called otherwise, [`controls`]
//! has locks that must be found out, [`watch`] sees to it that whoever sleeps for ever is named.

pub mod controls;
pub mod handlers;
pub mod locks;
pub mod machine;
pub mod one_cpu;
pub mod section;
pub mod watch;

use std::fmt;
use std::time::{Duration, Instant};

/// So long a trial takes at least, or nobody would have been disturbed.
const LEAST: Duration = Duration::from_millis(100);

/// Has a thread still to go on that has made so many of its operations?
#[inline(always)]
fn goes_on(start: Instant, made: u64, operations: u64) -> bool {
    made < operations || !made.is_multiple_of(256) || start.elapsed() < LEAST
}

/// How often the lock was held, and what came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Acquisitions by threads.
    pub by_threads: u64,
    /// Acquisitions by signal handlers.
    pub by_handlers: u64,
    /// How often something was wrong: additions lost or doubled, and words found half changed.
    pub wrong: u64,
    /// How often somebody was disturbed: moved, aborted or interrupted.
    pub disturbances: u64,
    /// How long it took.
    pub time: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "held {} times by threads, {} times by handlers; {} disturbances; {} wrong; {} ms",
            self.by_threads,
            self.by_handlers,
            self.disturbances,
            self.wrong,
            self.time.as_millis()
        )
    }
}
