//! When a trial that does not get on is given up.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// So many times the patience may be slept away.
const ASLEEP: u32 = 10;

/// The most that counts between two looks: whoever looks was kept from it, and so was everybody.
const LONGEST: Duration = Duration::from_secs(1);

/// What the process has had since it last got on.
///
/// A trial is given up when that is more CPU time than the patience, or ten times as much in which
/// its threads slept. The time for which they wait for a CPU counts as neither: other programs are
/// in the way then, and starvation is no hang.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// By the clock.
    wall: Duration,
    cpu: Duration,
    /// For a CPU, of all threads together.
    waiting: Duration,
    asleep: Duration,
}

impl Spent {
    /// So much more of each, but for sleep, which is what is left of the time by the clock.
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

/// How long this process may go on without getting on.
#[derive(Debug)]
pub struct Patience {
    most: Duration,
    spent: Spent,
    at: Instant,
    cpu: Duration,
    waiting: BTreeMap<u32, Duration>,
}

impl Patience {
    /// From now on; so much CPU time.
    pub fn of(most: Duration) -> Patience {
        Patience {
            most,
            spent: Spent::default(),
            at: Instant::now(),
            cpu: cpu_time(),
            waiting: waiting_times(),
        }
    }

    /// It has got on.
    pub fn renew(&mut self) {
        self.spent = Spent::default();
    }

    /// Looks again. `Some`: this is too much.
    pub fn is_over(&mut self) -> Option<Spent> {
        let (at, cpu, waiting) = (Instant::now(), cpu_time(), waiting_times());
        // A thread that has just begun waited for nothing before.
        let more = waiting.iter().map(|(thread, time)| {
            time.saturating_sub(self.waiting.get(thread).copied().unwrap_or_default())
        });
        self.spent
            .add(at - self.at, cpu.saturating_sub(self.cpu), more.sum());
        (self.at, self.cpu, self.waiting) = (at, cpu, waiting);
        self.spent.is_too_much(self.most).then_some(self.spent)
    }
}

/// What this process has had.
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

/// The threads of this process.
pub fn threads() -> impl Iterator<Item = u32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
}

/// How long each has waited for a CPU since it began; none of them, if the kernel does not count
/// that. A thread that ends meanwhile is left out.
fn waiting_times() -> BTreeMap<u32, Duration> {
    let waiting = |thread| Some((thread, scheduled(thread)?.1));
    threads().filter_map(waiting).collect()
}

/// How long a thread has run, and has waited to run.
pub fn scheduled(thread: u32) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut times = text
        .split_whitespace()
        .map_while(|word| word.parse().ok().map(Duration::from_nanos));
    Some((times.next()?, times.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const LOOK: Duration = Duration::from_millis(100);

    /// Looks until it is over; how many, if it is before a day of them.
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
    fn who_is_starved_has_longer() {
        let cpu = LOOK / 504;
        assert!(looks(LOOK, cpu, LOOK - cpu).is_some_and(|looks| looks > 10 * 60 * 60));
        assert_eq!(looks(LOOK, Duration::ZERO, LOOK), None);
    }

    /// A machine that stands still for a minute between two looks.
    #[test]
    fn nobody_sleeps_while_the_machine_does() {
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
