//! A worker: the threads that wait for it, in eight levels, and those that sleep (S92, section
//! 5.3.1).

use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

use atomseq::nonblocking::{Handle, LinkedQueue, PriorityQueue, Stack};

use super::linux::{Nanoseconds, Patience};
use super::list::Fifo;
use super::task::{Header, Task};

/// The number of levels.
pub const LEVELS: u8 = 8;

/// The last level, whose threads have as much attention as those of the one above.
const LAST: u8 = LEVELS - 1;

/// Returns the level that a turn belongs to: 0 for every second one, 1 for every fourth, and so on.
/// From 1 on, that is S92's table: 0, 1, 0, 2, 0, 1, 0, 3, ...
pub(crate) fn level_of(turn: u64) -> u8 {
    (turn.trailing_zeros() as u8).min(LAST)
}

/// Returns the next turn that belongs to one of these levels, a bit each; there is one. So the
/// turns of empty levels go to the others in proportion.
pub(crate) fn next_turn(turn: u64, levels: u8) -> u64 {
    let next = |level: u8| match level {
        LAST => ((turn >> LAST) + 1) << LAST,
        _ => (((turn >> level) + 1) | 1) << level,
    };
    let nonempty = (0..LEVELS).filter(|level| levels >> level & 1 != 0);
    nonempty.map(next).min().unwrap_or(turn + 1)
}

/// Of a worker that does not wait.
pub(super) const AWAKE: u32 = 0;
/// Of one that waits, and looks at this word.
pub(super) const WATCHES: u32 = 1;
/// Of one whose kernel thread sleeps, or is about to.
pub(super) const ASLEEP: u32 = 2;

/// A queue for each level, and the last turn that was taken.
struct Queues {
    levels: [LinkedQueue<Task>; LEVELS as usize],
    turn: AtomicU64,
    /// Whether turns are ignored, so that a level is served only if all above are empty.
    strict: bool,
}

impl Queues {
    fn new(strict: bool) -> Queues {
        Queues {
            levels: core::array::from_fn(|_| LinkedQueue::new()),
            turn: AtomicU64::new(0),
            strict,
        }
    }

    /// Returns which levels have threads, a bit each.
    fn levels(&self) -> u8 {
        let nonempty =
            |(level, queue): (usize, &LinkedQueue<Task>)| u8::from(!queue.is_empty()) << level;
        self.levels.iter().enumerate().map(nonempty).sum()
    }

    /// Pushes a thread. Returns it if the system has no memory for the place.
    fn push(&self, task: Task) -> Result<(), Task> {
        let queue = &self.levels[usize::from(task.level)];
        queue.push(task).map_err(|refused| refused.value)
    }

    /// Pops the thread whose turn is next.
    fn pop(&self) -> Option<Task> {
        // Relaxed: it orders nothing. A turn that a thief takes at the same time may count once.
        let mut turn = self.turn.load(Relaxed);
        loop {
            let levels = match self.levels() {
                0 => return None,
                levels if self.strict => levels & levels.wrapping_neg(),
                levels => levels,
            };
            turn = next_turn(turn, levels);
            if let Some(task) = self.levels[usize::from(level_of(turn))].pop() {
                self.turn.store(turn, Relaxed);
                return Some(task);
            }
        }
    }
}

/// One of them.
#[repr(align(128))]
pub(super) struct Worker {
    /// The kernel thread that has this role: see [`super::role`].
    pub owner: AtomicU64,
    /// Whether the kernel thread that has the role waits for something to do: AWAKE, WATCHES,
    /// ASLEEP.
    pub sleeping: AtomicU32,
    /// Of that wait.
    pub patience: Patience,
    /// The CPU of its kernel threads.
    pub cpu: Option<u32>,
    queues: Queues,
    /// Threads for which the system had no memory for a place in a queue, of any level.
    refused: Fifo,
    /// Whether the next turn is theirs.
    is_of_refused: AtomicBool,
    /// Threads without a stack for which no kernel thread was left. Apart, so that those which have
    /// begun do not wait behind them.
    stalled: Queues,
    /// How many there are, or are about to be.
    stalls: AtomicUsize,
    /// The thread that was spawned last here, which its spawner joins, perhaps, before it begins.
    newest: AtomicPtr<Header>,
    /// Those that sleep, by the time at which they wake.
    timers: PriorityQueue<Nanoseconds, Task>,
    /// Kernel threads that have last run here, and have nothing to do.
    pub spares: Stack<u32>,
}

impl Worker {
    pub fn new(
        owner: u64,
        cpu: Option<u32>,
        threads: usize,
        strict: bool,
        patience: Patience,
    ) -> Worker {
        Worker {
            owner: AtomicU64::new(owner),
            sleeping: AtomicU32::new(AWAKE),
            patience,
            cpu,
            queues: Queues::new(strict),
            refused: Fifo::new(),
            is_of_refused: AtomicBool::new(false),
            stalled: Queues::new(strict),
            stalls: AtomicUsize::new(0),
            newest: AtomicPtr::new(ptr::null_mut()),
            timers: PriorityQueue::new(),
            spares: Stack::with_capacity(threads),
        }
    }

    /// Pushes a thread.
    pub fn push(&self, task: Task) {
        if let Err(task) = self.queues.push(task) {
            self.refused.push(task);
        }
    }

    /// Pushes a thread without a stack for which there is no kernel thread.
    pub fn stall(&self, task: Task) {
        self.stalls.fetch_add(1, SeqCst);
        if let Err(task) = self.stalled.push(task) {
            self.stalls.fetch_sub(1, SeqCst);
            self.refused.push(task);
        }
    }

    /// Pops the stalled thread whose turn is next. These turns are not those of `pop`.
    pub fn pop_stalled(&self) -> Option<Task> {
        if self.stalls() == 0 {
            return None;
        }
        let task = self.stalled.pop()?;
        self.stalls.fetch_sub(1, SeqCst);
        Some(task)
    }

    /// Returns how many threads have stalled.
    pub fn stalls(&self) -> usize {
        self.stalls.load(SeqCst)
    }

    /// Pops the first stalled thread of a level.
    pub fn pop_stalled_of(&self, level: u8) -> Option<Task> {
        let task = self.stalled.levels[usize::from(level)].pop()?;
        self.stalls.fetch_sub(1, SeqCst);
        Some(task)
    }

    /// Leaves a new thread where its spawner may find it. Returns the one before.
    pub fn put_newest(&self, task: Task) -> Option<Task> {
        owned(self.newest.swap(task.into_raw(), SeqCst))
    }

    /// Takes the newest thread.
    pub fn take_newest(&self) -> Option<Task> {
        match self.newest.load(SeqCst).is_null() {
            true => None,
            false => owned(self.newest.swap(ptr::null_mut(), SeqCst)),
        }
    }

    /// Takes the newest thread if it is this one.
    pub fn take_if_newest(&self, task: &Task) -> Option<Task> {
        let null = ptr::null_mut();
        let taken = self
            .newest
            .compare_exchange(task.as_ptr(), null, SeqCst, SeqCst);
        taken.ok().and_then(owned)
    }

    /// Adds a thread that sleeps until then. Returns it if the system has no memory.
    pub fn sleep_until(&self, time: Nanoseconds, task: Task) -> Result<Handle, Task> {
        self.timers
            .insert(time, task)
            .map_err(|refused| refused.value)
    }

    /// Removes a thread that does not sleep any more.
    pub fn stop_sleeping(&self, handle: Handle) -> Option<Task> {
        self.timers.remove(handle).map(|(_, task)| task)
    }

    /// Pops a thread whose time has come.
    pub fn pop_due(&self, now: Nanoseconds) -> Option<Task> {
        self.timers.pop_due(now).map(|(_, task)| task)
    }

    /// Returns when the next thread wakes.
    pub fn next_time(&self) -> Option<Nanoseconds> {
        self.timers.peek()
    }

    /// Returns whether threads wait.
    pub fn has_work(&self) -> bool {
        let has_new = !self.newest.load(SeqCst).is_null() || self.stalls() != 0;
        has_new || self.has_queued()
    }

    /// Returns whether threads wait in the queues, where a thief takes them.
    pub fn has_queued(&self) -> bool {
        self.queues.levels() != 0 || !self.refused.is_empty()
    }

    /// Pops the thread whose turn is next. Those for which there was no place have every second
    /// turn, so that neither they nor the others wait for all of the others.
    pub fn pop(&self) -> Option<Task> {
        if self.refused.is_empty() {
            return self.queues.pop();
        }
        // Relaxed: it orders nothing.
        match self.is_of_refused.fetch_xor(true, Relaxed) {
            true => self.refused.pop().or_else(|| self.queues.pop()),
            false => self.queues.pop().or_else(|| self.refused.pop()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(owned(*self.newest.get_mut()));
    }
}

fn owned(task: *mut Header) -> Option<Task> {
    // SAFETY: what was in `newest`, with the reference of `put_newest`.
    (!task.is_null()).then(|| unsafe { Task::from_raw(task) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_the_table_of_the_paper() {
        let levels: Vec<u8> = (1..=16).map(level_of).collect();
        assert_eq!(levels, [0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 4]);
        for turn in 0..1000 {
            assert_eq!(next_turn(turn, 0xff), turn + 1);
        }
    }

    #[test]
    fn each_level_of_those_that_have_stalled_has_its_turns() {
        let runtime = super::super::Options::new().workers(1).start().unwrap();
        let worker = Worker::new(0, None, 1, false, Patience::new(1));
        for level in [3, 0, 1].iter().cycle().take(300) {
            let shared = std::sync::Arc::clone(&runtime.shared);
            // SAFETY: the closure borrows nothing.
            let task = unsafe { Task::new(|| (), shared, None, *level, None, None) };
            worker.stall(task);
        }
        let mut counts = [0usize; LEVELS as usize];
        for _ in 0..100 {
            counts[usize::from(worker.pop_stalled().unwrap().level)] += 1;
        }
        // 8 : 4 : 1.
        assert!(
            counts[0].abs_diff(61) < 2 && counts[1].abs_diff(31) < 2,
            "{counts:?}"
        );
        assert_eq!(worker.stalls(), 200);
    }

    #[test]
    fn each_level_has_half_the_attention_of_the_one_above() {
        let counts = |levels: u8, turns: usize| {
            let mut counts = [0; LEVELS as usize];
            let mut turn = 0;
            for _ in 0..turns {
                turn = next_turn(turn, levels);
                counts[usize::from(level_of(turn))] += 1;
            }
            counts
        };
        assert_eq!(counts(0xff, 1280), [640, 320, 160, 80, 40, 20, 10, 10]);
        // Levels 1 and 3 alone: four to one.
        assert_eq!(counts(0b1010, 500), [0, 400, 0, 100, 0, 0, 0, 0]);
        assert_eq!(counts(0b1000_0000, 77)[7], 77);
    }
}
