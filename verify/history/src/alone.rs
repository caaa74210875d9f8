//! Runs one trial at a time. A trial that makes no progress is reported and ends the process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use verify_support::threads::{self, scheduled};

use crate::reports::{self, say, say_panics};
use crate::stops::steps;

/// The CPU time that one history may take: far more than any needs. It bounds a single history, not
/// a trial.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval at which the watching thread checks for progress.
const LOOK: Duration = Duration::from_millis(100);

/// The report on all threads of a hung process may hang as well: an alarm ends the process after
/// this number of seconds.
const LAST_WORDS: u32 = 30;

/// A trial that owns the process exclusively: breakpoints and handlers belong to the process. If
/// the trial makes no progress (see [`Spent`]), the process reports what every thread does, and
/// aborts.
pub struct Alone {
    over: Arc<AtomicBool>,
    _one: MutexGuard<'static, ()>,
}

/// The progress of this process: histories completed, and calls followed to look for places.
static PROGRESS: AtomicU64 = AtomicU64::new(0);

/// Counts a completed history or a followed call.
pub(crate) fn one_more() {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
}

/// Returns a count that stays the same while nothing makes progress. Steps of an operation that is
/// followed count: under a hypervisor each may take long, and there is a limit to their number.
fn progress() -> u64 {
    PROGRESS.load(Ordering::Relaxed) + steps()
}

/// What this process is doing, for messages.
static DOING: Mutex<String> = Mutex::new(String::new());

/// Records what this process does next, for a report.
pub(crate) fn now_doing(what: String) {
    *DOING.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

impl Alone {
    /// Waits until no other trial runs, and excludes others until dropped.
    pub fn in_trial(name: &str) -> Alone {
        Alone::with_patience(name, PATIENCE)
    }

    /// The same with another patience.
    pub fn with_patience(name: &str, patience: Duration) -> Alone {
        static ONE: Mutex<()> = Mutex::new(());
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        say_panics();
        let (over, name) = (Arc::new(AtomicBool::new(false)), name.to_string());
        let is_over = over.clone();
        // Never joined: it exits when the trial is over, or ends the process.
        thread::spawn(move || watch(&name, patience, &is_over));
        Alone { over, _one: one }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn watch(name: &str, most: Duration, over: &AtomicBool) {
    let before = PROGRESS.load(Ordering::Relaxed);
    let (mut last, mut patience) = (progress(), Patience::of(most));
    while !over.load(Ordering::Relaxed) {
        let now = progress();
        let spent = patience.is_over();
        if now != last {
            last = now;
            patience.renew();
        } else if let Some(spent) = spent {
            // SAFETY: only sets when this process ends.
            unsafe { libc::alarm(LAST_WORDS) };
            say(format!(
                "{name}: an operation never ends, or takes longer than {most:?}, after {} histories and calls that were followed; since then {spent}; ",
                PROGRESS.load(Ordering::Relaxed) - before
            ));
            // The thread that holds the lock may be the one that hangs.
            match DOING.try_lock() {
                Ok(doing) => say(doing.as_bytes()),
                Err(_) => say("noting what comes next"),
            }
            say("\n");
            reports::say_all();
            std::process::abort();
        }
        thread::sleep(LOOK);
    }
}

// When a trial without progress is abandoned.

/// The process may sleep for this multiple of its patience.
const ASLEEP: u32 = 10;

/// The longest time counted between two looks: if the watching thread waited for its CPU for
/// longer, so did the others.
const LONGEST: Duration = Duration::from_secs(1);

/// What the process has spent since it last made progress.
///
/// A trial is abandoned when the process has used more CPU time than its patience, or when its
/// threads have slept for ten times as long. Time spent waiting for a CPU counts as neither: other
/// programs use the CPUs then, and starvation is not a hang.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Wall-clock time.
    wall: Duration,
    cpu: Duration,
    /// Time spent waiting for a CPU, of all threads together.
    waiting: Duration,
    asleep: Duration,
}

impl Spent {
    /// Adds to each time. Sleep is the wall-clock time that is left over.
    fn add(&mut self, wall: Duration, cpu: Duration, waiting: Duration) {
        self.wall += wall;
        self.cpu += cpu;
        self.waiting += waiting;
        self.asleep += wall.min(LONGEST).saturating_sub(cpu + waiting);
    }

    fn is_too_much(&self, patience: Duration) -> bool {
        self.cpu > patience || self.asleep > patience * ASLEEP
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spent {
            wall,
            cpu,
            waiting,
            asleep,
        } = self;
        write!(
            f,
            "{cpu:.1?} of CPU time in {wall:.1?}; its threads waited {waiting:.1?} for a CPU, and slept for {asleep:.1?}"
        )
    }
}

/// How long this process may run without making progress.
#[derive(Debug)]
pub struct Patience {
    most: Duration,
    spent: Spent,
    at: Instant,
    cpu: Duration,
    waiting: BTreeMap<i32, Duration>,
}

impl Patience {
    /// Starts now, with this much CPU time.
    pub fn of(most: Duration) -> Patience {
        Patience {
            most,
            spent: Spent::default(),
            at: Instant::now(),
            cpu: cpu_time(),
            waiting: waiting_times(),
        }
    }

    /// Records progress.
    pub fn renew(&mut self) {
        self.spent = Spent::default();
    }

    /// Looks again. Returns what was spent if that is too much.
    pub fn is_over(&mut self) -> Option<Spent> {
        let (at, cpu, waiting) = (Instant::now(), cpu_time(), waiting_times());
        // A thread that has just started has not waited before.
        let more = waiting.iter().map(|(thread, time)| {
            time.saturating_sub(self.waiting.get(thread).copied().unwrap_or_default())
        });
        self.spent
            .add(at - self.at, cpu.saturating_sub(self.cpu), more.sum());
        (self.at, self.cpu, self.waiting) = (at, cpu, waiting);
        self.spent.is_too_much(self.most).then_some(self.spent)
    }
}

/// Returns the CPU time that this process has used.
fn cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for a time.
    let read = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(read, 0, "this clock is everywhere");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns how long each thread has waited for a CPU since it started; empty if the kernel does not
/// report it. A thread that exits meanwhile is left out.
fn waiting_times() -> BTreeMap<i32, Duration> {
    let waiting = |thread| Some((thread, scheduled(thread)?.1));
    threads::all().filter_map(waiting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const LOOK: Duration = Duration::from_millis(100);

    /// Looks until the patience is over. Returns the number of looks, if that takes less than a
    /// day.
    fn looks(look: Duration, cpu: Duration, waiting: Duration) -> Option<u32> {
        let mut spent = Spent::default();
        (1..864_000).find(|_| {
            spent.add(look, cpu, waiting);
            spent.is_too_much(PATIENCE)
        })
    }

    #[test]
    fn who_runs_has_so_much_cpu_time() {
        assert_eq!(looks(LOOK, LOOK, Duration::ZERO), Some(601));
        assert_eq!(looks(LOOK, 2 * LOOK, LOOK), Some(301), "on two CPUs");
    }

    #[test]
    fn who_sleeps_has_ten_times_as_long() {
        assert_eq!(looks(LOOK, Duration::ZERO, Duration::ZERO), Some(6_001));
        assert_eq!(looks(LOOK, LOOK / 20, LOOK / 20), Some(6_667));
    }

    /// A quarter of a second in 126, at nice 19 among 20 others on 2 CPUs: more than half an hour
    /// of patience.
    #[test]
    fn a_starved_process_has_longer() {
        let cpu = LOOK / 504;
        assert!(looks(LOOK, cpu, LOOK - cpu).is_some_and(|looks| looks > 10 * 60 * 60));
        assert_eq!(looks(LOOK, Duration::ZERO, LOOK), None);
    }

    /// The machine stops for a minute between two looks.
    #[test]
    fn a_stopped_machine_counts_as_no_sleep() {
        let minute = Duration::from_secs(60);
        assert_eq!(looks(minute, Duration::ZERO, Duration::ZERO), Some(601));
    }

    #[test]
    fn the_kernel_says_what_threads_have_had() {
        let mut patience = Patience::of(LOOK);
        let start = cpu_time();
        while cpu_time() - start < 2 * LOOK {}
        let spent = patience.is_over().expect("more than that");
        assert!(spent.cpu >= 2 * LOOK, "{spent}");
    }
}
