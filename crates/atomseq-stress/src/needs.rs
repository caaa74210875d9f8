//! What the engine asks of the system beside memory and workers, and how often that was granted.
//! What needs a request that was refused is not tested; the summary says so.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What the engine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Need {
    /// Children that check their copy.
    Forks,
    /// Threads that make only a few operations.
    Threads,
    /// Hooks that run when a thread exits.
    Hooks,
    /// Timers that interrupt threads.
    Timers,
    /// Signals to threads.
    Signals,
    /// Moves of threads to other CPUs.
    Moves,
    /// Locks whose mechanism the kernel or a call emulates.
    Emulation,
}

/// All of them, in order: one of it, several, and what is not tested without it.
pub const ALL: [(Need, &str, &str, &str); 7] = [
    (
        Need::Forks,
        "child, or its exit status",
        "children, or their exit status",
        "what a forked child finds in its copy",
    ),
    (
        Need::Threads,
        "thread",
        "threads",
        "the first and the last operations of threads",
    ),
    (
        Need::Hooks,
        "hook of an exiting thread",
        "hooks of exiting threads",
        "operations after a thread's last Rust destructor",
    ),
    (Need::Timers, "timer", "timers", "interruptions by timers"),
    (
        Need::Signals,
        "signal",
        "signals",
        "interruptions by signals sent to threads",
    ),
    (
        Need::Moves,
        "move to another CPU",
        "moves to another CPU",
        "threads moved in the middle of an operation",
    ),
    (
        Need::Emulation,
        "emulation of an instruction",
        "emulations of an instruction",
        "locks by emulation",
    ),
];

/// How often one of them was granted and refused.
struct Count {
    granted: AtomicU64,
    missed: AtomicU64,
    /// The error number of the latest refusal.
    errno: AtomicI32,
}

// Relaxed throughout: figures, read after the run.
static COUNTS: [Count; ALL.len()] = [const {
    Count {
        granted: AtomicU64::new(0),
        missed: AtomicU64::new(0),
        errno: AtomicI32::new(0),
    }
}; ALL.len()];

impl Need {
    /// Counts a request, by its result.
    pub fn record<T>(self, result: Result<T, &io::Error>) {
        let count = &COUNTS[self as usize];
        match result {
            // Another operating system: the report says so at the start.
            Err(error)
                if error.raw_os_error().is_none() && error.kind() == io::ErrorKind::Unsupported => {
            }
            Ok(_) => {
                count.granted.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                count.missed.fetch_add(1, Ordering::Relaxed);
                let errno = error.raw_os_error().unwrap_or_default();
                count.errno.store(errno, Ordering::Relaxed);
            }
        }
    }

    /// Counts a system call that sets `errno` if it fails; returns `done`.
    pub fn granted(self, done: bool) -> bool {
        match done {
            true => self.record(Ok(())),
            false => self.record::<()>(Err(&io::Error::last_os_error())),
        }
        done
    }
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted([(u64, u64); ALL.len()]);

impl Granted {
    /// Returns the counts now.
    pub fn now() -> Self {
        Self(COUNTS.each_ref().map(|count| {
            let granted = count.granted.load(Ordering::Relaxed);
            (granted, count.missed.load(Ordering::Relaxed))
        }))
    }

    /// Returns what was counted since `before`.
    pub fn since(self, before: Self) -> Self {
        let mut since = self;
        for (now, before) in since.0.iter_mut().zip(before.0) {
            *now = (now.0 - before.0, now.1 - before.1);
        }
        since
    }

    /// Returns whether anything was refused each time.
    pub fn lacks_any(&self) -> bool {
        self.0
            .iter()
            .any(|&(granted, missed)| granted == 0 && missed > 0)
    }

    /// Returns what was refused to the target of that name, a sentence each.
    pub fn sentences(&self, target: &str) -> Vec<String> {
        let of = |((need, one, several, untried), (granted, missed)): (_, (u64, u64))| {
            let need: Need = need;
            let errno = COUNTS[need as usize].errno.load(Ordering::Relaxed);
            // A thread may exit while a signal is sent to it.
            if missed == 0 || granted > 0 && errno == EXITED {
                return None;
            }
            let what = if missed == 1 { one } else { several };
            let why = match errno {
                0 => String::new(),
                errno => format!(" ({})", io::Error::from_raw_os_error(errno)),
            };
            let so = match granted {
                0 => format!("so this was NOT tested: {untried}"),
                _ => format!("so this was tested less often: {untried}"),
            };
            Some(format!(
                "{target}: the system refused {missed} {what}{why}, {so}."
            ))
        };
        ALL.into_iter().zip(self.0).filter_map(of).collect()
    }
}

#[cfg(target_os = "linux")]
const EXITED: i32 = libc::ESRCH;
#[cfg(not(target_os = "linux"))]
const EXITED: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_implemented_counts_as_refused() {
        // No other test here emulates.
        let before = Granted::now();
        let missed = |granted: Granted| granted.since(before).0[Need::Emulation as usize].1;
        Need::Emulation.record::<()>(Err(&io::ErrorKind::Unsupported.into()));
        assert_eq!(missed(Granted::now()), 0, "another operating system");
        /// "Function not implemented" on Linux.
        const ENOSYS: i32 = 38;
        Need::Emulation.record::<()>(Err(&io::Error::from_raw_os_error(ENOSYS)));
        assert_eq!(missed(Granted::now()), 1);
    }

    #[test]
    fn what_was_refused_each_time_was_not_tested() {
        let mut granted = Granted::default();
        assert!(!granted.lacks_any() && granted.sentences("t").is_empty());
        granted.0[Need::Forks as usize] = (2, 3);
        assert!(!granted.lacks_any());
        let text = granted.sentences("t").concat();
        assert!(text.contains("refused 3 children") && text.contains("less often"));
        granted.0[Need::Forks as usize] = (0, 1);
        assert!(granted.lacks_any());
        let text = granted.sentences("t").concat();
        assert!(text.contains("refused 1 child, or") && text.contains("NOT tested"));
    }
}
