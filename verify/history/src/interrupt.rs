//! Interruptions of a thread inside an operation: a signal handler that yields, sleeps, waits until
//! the other threads are done, or calls operations itself.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use verify_support::signals::install_short;
use verify_support::timers::{self, Handle};

use crate::stops::Places;

/// The other threads, as a handler sees them.
pub trait Others: Sync {
    /// Returns whether all other threads have made their calls.
    fn are_done(&self, thread: usize) -> bool;
    /// Makes one call in this thread's second lane. Returns `false` if that lane has made all of
    /// its calls.
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
    // Constant, and nothing to drop: handlers may use these.
    static ME: Cell<Option<Me>> = const { Cell::new(None) };
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
    /// The thread's timer and its period.
    static TIMER: Cell<Option<(Handle, Duration)>> = const { Cell::new(None) };
    /// How often it has expired since this thread began its current history.
    static CAME: Cell<u32> = const { Cell::new(0) };
}

/// How often handlers did what.
#[derive(Debug, Default)]
pub struct Counts {
    /// Handlers that ran while an operation was in progress or about to begin.
    pub interruptions: AtomicU64,
    /// Calls that handlers made.
    pub calls: AtomicU64,
    /// How often a handler saw all others finish.
    pub outlasted: AtomicU64,
}

/// The counts of this process.
pub static COUNTS: Counts = Counts {
    interruptions: AtomicU64::new(0),
    calls: AtomicU64::new(0),
    outlasted: AtomicU64::new(0),
};

/// Runs `body`, during which handlers on this thread act among `others`.
pub fn among(others: &dyn Others, thread: usize, body: impl FnOnce()) {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            ME.set(None);
        }
    }
    let others: *const (dyn Others + '_) = others;
    // SAFETY: only the lifetime changes; `Leave` removes the pointer before the borrow ends.
    let others = unsafe {
        std::mem::transmute::<*const (dyn Others + '_), *const (dyn Others + 'static)>(others)
    };
    let _leave = Leave;
    begin();
    ME.set(Some(Me { others, thread }));
    body();
}

/// The longest time that a handler waits for the other threads.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long a thread sleeps that waits for another. Yielding takes CPU time from the threads that
/// work. Where other programs of higher priority run, a thread that yields also forfeits the rest
/// of its time slice: measured at nice 19 among 20 others on 2 CPUs, it ran again after 11 ms, and
/// after this sleep after 0.6 ms (60 times each, Linux 6.18).
const AWHILE: Duration = Duration::from_micros(50);

/// Waits until `so` holds; looks this many times before it sleeps.
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

/// Performs a handler's action, a different one each time.
pub fn act() {
    let Some(Me { others, thread }) = ME.get() else {
        return;
    };
    if INTERRUPTED.replace(true) {
        return;
    }
    // SAFETY: `among` removes the pointer before its borrow ends.
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
    // SAFETY: a valid time; the remaining time is not requested.
    unsafe { libc::nanosleep(&time, ptr::null_mut()) };
}

/// Runs a handler's work and restores `errno`.
pub fn with_errno_kept(work: impl FnOnce()) {
    // SAFETY: this thread's own number.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address of this thread's own number.
    let before = unsafe { *errno };
    work();
    // SAFETY: the address of this thread's own number.
    unsafe { *errno = before };
}

/// The signal of [`Timer`]s.
const SIGNAL: libc::c_int = libc::SIGUSR2;

/// The time between two interruptions of a history is doubled this often at most.
const DOUBLINGS: u32 = 10;

/// Marks the beginning of a history on this thread.
pub fn begin() {
    let came = CAME.replace(0);
    if let Some((timer, period)) = TIMER.get() {
        // With fewer expirations it is due soon, and should stay unsynchronised with the history.
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

/// Interrupts the thread that started it, repeatedly, until dropped. The next period begins only
/// when the handler has done its work, and is longer the more often the timer expired in the same
/// history. Where handlers take longer than the period, an unconditional timer would expire again
/// before the thread's next instruction, indefinitely.
#[derive(Debug)]
pub struct Timer {
    _timer: timers::Timer,
}

impl Timer {
    /// Starts a timer for this thread, which has no other.
    ///
    /// # Panics
    ///
    /// If the system has no free timer.
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
        // A handler that runs from now on does not rearm it.
        TIMER.set(None);
    }
}

// Histories of one thread: a call is stopped at an instruction, and the handler makes calls in
// other lanes, which are stopped in turn. The structure cannot tell lanes from threads; a section
// that a signal interrupts is aborted as by a preemption. No thread waits for another, so there are
// many more histories than in [`crew`](crate::crew), and every one has a stop inside an operation.
//
// ```text
// lane 2   push ──┐ stop                                   ┌── continues
// lane 0          └ pop ─ push ──┐ stop       ┌─ continues ┘
// lane 1                         └ pop ── pop ┘
// ```

/// The maximal nesting depth of stops.
const DEPTH: u32 = 3;

/// The current nest, as handlers reach it.
struct Nest {
    lanes: *const (dyn Others + 'static),
    places: *const Places,
    /// The number of lanes.
    count: usize,
    /// Lanes that are inside a call, one bit each.
    inside: Cell<u32>,
    depth: Cell<u32>,
    stops: Cell<u64>,
    random: Cell<u64>,
}

thread_local! {
    // Constant, and nothing to drop: handlers may use this.
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
        // SAFETY: only the lifetime changes; `Leave` removes the pointer before the borrow ends.
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

/// Makes other lanes' calls, in the handler of a stop.
fn stopped() {
    let nest = NEST.get();
    if nest.is_null() {
        return;
    }
    // SAFETY: `run` removes it before it returns, and only its own thread reads it.
    let nest = unsafe { &*nest };
    nest.stops.set(nest.stops.get() + 1);
    nest.depth.set(nest.depth.get() + 1);
    for _ in 0..1 + nest.random(6) {
        nest.step(nest.depth.get() < DEPTH && nest.random(2) == 0);
    }
    nest.depth.set(nest.depth.get() - 1);
}

impl Nest {
    /// Makes one call of a lane that is not inside one. Returns `false` if the chosen lane makes
    /// none.
    fn step(&self, with_stop: bool) -> bool {
        let lane = self.random(self.count as u64) as usize;
        let inside = self.inside.get();
        if inside >> lane & 1 == 1 {
            return false;
        }
        // SAFETY: `run` borrows both.
        let (lanes, places) = unsafe { (&*self.lanes, &*self.places) };
        // Planted until the end of this step.
        let _stop =
            with_stop.then(|| places.plant(self.random(places.len() as u64) as usize, stopped));
        self.inside.set(inside | 1 << lane);
        let called = lanes.call_in(lane);
        self.inside.set(inside);
        called
    }

    /// Returns a number below `most` (xorshift).
    fn random(&self, most: u64) -> u64 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        (random >> 11) % most
    }
}
