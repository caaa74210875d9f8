//! What the torture asks of the system beside memory and workers, and how often it got it. A law is
//! tried only where what it needs was granted: the summary says which were not.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// What the torture asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Need {
    /// Children that check their copy.
    Forks,
    /// Threads that live for a few operations.
    Threads,
    /// Hooks that run when a thread ends.
    Hooks,
    /// Timers that interrupt threads.
    Timers,
    /// Signals to threads.
    Signals,
    /// Moves of threads to other CPUs.
    Moves,
    /// Locks by emulation.
    Emulation,
}

/// All of them, in order: one of it, several, and what goes untried without it.
pub const ALL: [(Need, &str, &str, &str); 7] = [
    (
        Need::Forks,
        "child, or to say how it ended",
        "children, or to say how they ended",
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
        "hook of an ending thread",
        "hooks of ending threads",
        "operations after a thread's last Rust destructor",
    ),
    (Need::Timers, "timer", "timers", "interruptions by timers"),
    (
        Need::Signals,
        "signal",
        "signals",
        "interruptions by signals that are sent",
    ),
    (
        Need::Moves,
        "move to another CPU",
        "moves to another CPU",
        "threads that are moved in the middle of an operation",
    ),
    (
        Need::Emulation,
        "emulation of an instruction",
        "emulations of an instruction",
        "locks by emulation",
    ),
];

/// How often one of them was granted, and how often not.
struct Count {
    granted: AtomicU64,
    missed: AtomicU64,
    /// The error number of the latest refusal.
    errno: AtomicI32,
}

// Relaxed throughout: figures, read when all is over.
static COUNTS: [Count; ALL.len()] = [const {
    Count {
        granted: AtomicU64::new(0),
        missed: AtomicU64::new(0),
        errno: AtomicI32::new(0),
    }
}; ALL.len()];

impl Need {
    /// Counts a request.
    pub fn asked<T>(self, result: Result<T, &io::Error>) {
        let count = &COUNTS[self as usize];
        match result {
            // A system without it: the torture says so at the beginning.
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

    /// The same of a system call that says in `errno` why it failed.
    pub fn granted(self, done: bool) -> bool {
        match done {
            true => self.asked(Ok(())),
            false => self.asked::<()>(Err(&io::Error::last_os_error())),
        }
        done
    }
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted([(u64, u64); ALL.len()]);

impl Granted {
    /// Now.
    pub fn now() -> Self {
        Self(COUNTS.each_ref().map(|count| {
            let granted = count.granted.load(Ordering::Relaxed);
            (granted, count.missed.load(Ordering::Relaxed))
        }))
    }

    /// What came since.
    pub fn since(self, before: Self) -> Self {
        let mut since = self;
        for (now, before) in since.0.iter_mut().zip(before.0) {
            *now = (now.0 - before.0, now.1 - before.1);
        }
        since
    }

    /// Was something asked for, and never granted?
    pub fn lacks_any(&self) -> bool {
        self.0
            .iter()
            .any(|&(granted, missed)| granted == 0 && missed > 0)
    }

    /// What was refused to the target of that name, a sentence each.
    pub fn sentences(&self, target: &str) -> Vec<String> {
        let of = |((need, one, several, untried), (granted, missed)): (_, (u64, u64))| {
            let need: Need = need;
            let errno = COUNTS[need as usize].errno.load(Ordering::Relaxed);
            // A thread may end while it is asked after.
            if missed == 0 || granted > 0 && errno == GONE {
                return None;
            }
            let what = if missed == 1 { one } else { several };
            let why = match errno {
                0 => String::new(),
                errno => format!(" ({})", io::Error::from_raw_os_error(errno)),
            };
            let so = match granted {
                0 => format!("so this was NOT tried: {untried}"),
                _ => format!("so this was tried less often: {untried}"),
            };
            Some(format!(
                "{target}: the system refused {missed} {what}{why}, {so}."
            ))
        };
        ALL.into_iter().zip(self.0).filter_map(of).collect()
    }
}

#[cfg(target_os = "linux")]
const GONE: i32 = libc::ESRCH;
#[cfg(not(target_os = "linux"))]
const GONE: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_implemented_was_refused() {
        // Nobody else in these tests emulates.
        let before = Granted::now();
        let missed = |granted: Granted| granted.since(before).0[Need::Emulation as usize].1;
        Need::Emulation.asked::<()>(Err(&io::ErrorKind::Unsupported.into()));
        assert_eq!(missed(Granted::now()), 0, "a system without it");
        /// What Linux calls it.
        const ENOSYS: i32 = 38;
        Need::Emulation.asked::<()>(Err(&io::Error::from_raw_os_error(ENOSYS)));
        assert_eq!(missed(Granted::now()), 1);
    }

    #[test]
    fn what_was_never_granted_was_not_tried() {
        let mut granted = Granted::default();
        assert!(!granted.lacks_any() && granted.sentences("t").is_empty());
        granted.0[Need::Forks as usize] = (2, 3);
        assert!(!granted.lacks_any());
        let told = granted.sentences("t").concat();
        assert!(told.contains("refused 3 children") && told.contains("less often"));
        granted.0[Need::Forks as usize] = (0, 1);
        assert!(granted.lacks_any());
        let told = granted.sentences("t").concat();
        assert!(told.contains("refused 1 child, or") && told.contains("NOT tried"));
    }
}
