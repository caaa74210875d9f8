//! What happens to a thread inside an operation: a signal handler that yields, sleeps, waits until
//! the others are done, or calls operations itself.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use verify_support::signals::install_short;
use verify_support::timers::{self, Handle};

use crate::stops::Places;

/// The others, as a handler knows them.
pub trait Others: Sync {
    /// Have all other threads made their calls?
    fn are_done(&self, thread: usize) -> bool;
    /// One call in this thread's second lane. `false`: it has made them all.
    fn call(&self, thread: usize) -> bool;
    /// The same in this lane, which is not inside a call.
    fn call_in(&self, lane: usize) -> bool;
}

#[derive(Clone, Copy)]
struct Me {
    others: *const (dyn Others + 'static),
    thread: usize,
}

thread_local! {
    // Constant, and nothing to drop: handlers may use them.
    static ME: Cell<Option<Me>> = const { Cell::new(None) };
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
    /// The thread's timer, and after how long it comes.
    static TIMER: Cell<Option<(Handle, Duration)>> = const { Cell::new(None) };
    /// How often it has come since this thread last began with a history.
    static CAME: Cell<u32> = const { Cell::new(0) };
}

/// How often a handler did what.
#[derive(Debug, Default)]
pub struct Counts {
    /// Handlers that came while an operation was under way or about to begin.
    pub interruptions: AtomicU64,
    /// Calls that handlers made.
    pub calls: AtomicU64,
    /// How often a handler saw all others finish.
    pub outlasted: AtomicU64,
}

/// Of this process.
pub static COUNTS: Counts = Counts {
    interruptions: AtomicU64::new(0),
    calls: AtomicU64::new(0),
    outlasted: AtomicU64::new(0),
};

/// While `body` runs, handlers on this thread act among these others.
pub fn among(others: &dyn Others, thread: usize, body: impl FnOnce()) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            ME.set(None);
        }
    }
    let others: *const (dyn Others + '_) = others;
    // SAFETY: only the lifetime changes; `Leave` takes the pointer away before the borrow ends.
    let others = unsafe {
        std::mem::transmute::<*const (dyn Others + '_), *const (dyn Others + 'static)>(others)
    };
    let _leave = Leave;
    begin();
    ME.set(Some(Me { others, thread }));
    body();
}

/// How long a handler waits for the others.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long a thread sleeps that waits for another. Yielding instead takes the time of those who
/// work; and where other programs run that are more important, a thread that yields forfeits what
/// it had left: measured at nice 19 among 20 others on 2 CPUs, it came back after 11 ms, and from
/// this sleep after 0.6 ms (60 times each, Linux 6.18).
const AWHILE: Duration = Duration::from_micros(50);

/// Waits until it is so; for so many looks awake.
pub fn wait_until(looks: u32, so: impl Fn() -> bool) {
    for turn in 0_u32.. {
        if so() {
            return;
        }
        if turn < looks {
            std::hint::spin_loop();
        } else {
            sleep(AWHILE);
        }
    }
}

/// What a handler does now; another thing each time.
pub fn act() {
    let Some(Me { others, thread }) = ME.get() else {
        return;
    };
    if INTERRUPTED.replace(true) {
        return;
    }
    // SAFETY: `among` takes it away before its borrow ends.
    let others = unsafe { &*others };
    let number = COUNTS.interruptions.fetch_add(1, Ordering::Relaxed);
    match number % 8 {
        0 => std::thread::yield_now(),
        1 => sleep(Duration::from_micros(20 + number % 64)),
        2 | 3 => wait_for(others, thread),
        _ => {
            for _ in 0..=number % 3 {
                COUNTS
                    .calls
                    .fetch_add(u64::from(others.call(thread)), Ordering::Relaxed);
            }
        }
    }
    INTERRUPTED.set(false);
}

fn wait_for(others: &dyn Others, thread: usize) {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if others.are_done(thread) {
            COUNTS.outlasted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        sleep(AWHILE);
    }
}

fn sleep(time: Duration) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: time.as_nanos() as libc::c_long,
    };
    // SAFETY: a valid time; how much is left is not asked for.
    unsafe { libc::nanosleep(&time, ptr::null_mut()) };
}

/// Runs a handler's work without a trace in `errno`.
pub fn with_errno_kept(work: impl FnOnce()) {
    // SAFETY: this thread's own number.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    work();
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// The signal of [`Timer`]s.
const SIGNAL: libc::c_int = libc::SIGUSR2;

/// The time between two interruptions of a history is doubled so often at most.
const DOUBLINGS: u32 = 10;

/// This thread begins with a history.
pub fn begin() {
    let came = CAME.replace(0);
    if let Some((timer, period)) = TIMER.get() {
        // Otherwise it comes soon, and had better come any time.
        if came > 2 {
            timer.once(period);
        }
    }
}

extern "C" fn on_timer(_signal: libc::c_int) {
    with_errno_kept(|| {
        act();
        if let Some((timer, period)) = TIMER.get() {
            let came = CAME.get();
            CAME.set(DOUBLINGS.min(came + 1));
            timer.once(period * (1 << came));
        }
    });
}

/// Interrupts the thread that started it, again and again, until dropped: each time so long after
/// the last handler has done its work, and longer the more often it came in one history. Where
/// handlers take longer than the period, a timer that just went on would come again before the
/// thread's next instruction, for ever.
#[derive(Debug)]
pub struct Timer {
    _timer: timers::Timer,
}

impl Timer {
    /// For this thread, which has no other.
    ///
    /// # Panics
    ///
    /// If the system has no timer left.
    pub fn start(period: Duration) -> Timer {
        install_short(SIGNAL, on_timer, libc::SA_RESTART);
        let timer = timers::Timer::new(SIGNAL).expect("a timer for this thread");
        TIMER.set(Some((timer.handle(), period)));
        timer.handle().once(period);
        Timer { _timer: timer }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // A handler that comes now does not set it again.
        TIMER.set(None);
    }
}

// Histories of one thread: a call is stopped at an instruction, and the handler makes calls of
// other lanes, which are stopped in turn. To the structure, lanes are what threads are; a section
// that a signal interrupts is aborted as by a preemption. No thread waits for another, so there
// are many more histories than in [`crew`](crate::crew), and every one has a stop inside an
// operation.
//
// ```text
// lane 2   push ──┐ stop                                   ┌── goes on
// lane 0          └ pop ─ push ──┐ stop       ┌── goes on ─┘
// lane 1                         └ pop ── pop ┘
// ```

/// How deep stops lie in each other.
const DEPTH: u32 = 3;

/// The nest under way, as handlers reach it.
struct Nest {
    lanes: *const (dyn Others + 'static),
    places: *const Places,
    /// How many lanes there are.
    count: usize,
    /// Lanes that are inside a call, a bit each.
    inside: Cell<u32>,
    depth: Cell<u32>,
    stops: Cell<u64>,
    random: Cell<u64>,
}

thread_local! {
    // Constant, and nothing to drop: handlers may use it.
    static NEST: Cell<*const Nest> = const { Cell::new(std::ptr::null()) };
}

/// Makes all calls of the first `count` lanes. Returns how many of them were stopped inside.
pub fn run(lanes: &dyn Others, count: usize, places: &Places, seed: u64) -> u64 {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            NEST.set(std::ptr::null());
        }
    }
    let lanes: *const (dyn Others + '_) = lanes;
    let nest = Nest {
        // SAFETY: only the lifetime changes; `Leave` takes the pointer away before the borrow ends.
        lanes: unsafe {
            std::mem::transmute::<*const (dyn Others + '_), *const (dyn Others + 'static)>(lanes)
        },
        places,
        count,
        inside: Cell::new(0),
        depth: Cell::new(0),
        stops: Cell::new(0),
        random: Cell::new(seed | 1),
    };
    let _leave = Leave;
    begin();
    NEST.set(&nest);
    let mut idle = 0;
    while idle < 64 {
        idle = if nest.step(true) { 0 } else { idle + 1 };
    }
    nest.stops.get()
}

/// In the handler of a stop: other lanes make calls.
fn stopped() {
    let nest = NEST.get();
    if nest.is_null() {
        return;
    }
    // SAFETY: `run` takes it away before it returns, and only its own thread sees it.
    let nest = unsafe { &*nest };
    nest.stops.set(nest.stops.get() + 1);
    nest.depth.set(nest.depth.get() + 1);
    for _ in 0..1 + nest.random(6) {
        nest.step(nest.depth.get() < DEPTH && nest.random(2) == 0);
    }
    nest.depth.set(nest.depth.get() - 1);
}

impl Nest {
    /// One call of a lane that is not inside one. `false`: the one that was chosen makes none.
    fn step(&self, with_stop: bool) -> bool {
        let lane = self.random(self.count as u64) as usize;
        let inside = self.inside.get();
        if inside >> lane & 1 == 1 {
            return false;
        }
        // SAFETY: `run` borrows both.
        let (lanes, places) = unsafe { (&*self.lanes, &*self.places) };
        // Up to the end of this step.
        let _stop =
            with_stop.then(|| places.plant(self.random(places.len() as u64) as usize, stopped));
        self.inside.set(inside | 1 << lane);
        let called = lanes.call_in(lane);
        self.inside.set(inside);
        called
    }

    /// A number below `most` (xorshift).
    fn random(&self, most: u64) -> u64 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        (random >> 11) % most
    }
}
