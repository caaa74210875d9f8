//! A thread's timer, its signal handler, and the state that the handler keeps for the thread.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use atomseq::local::per_thread;
use atomseq::percpu::{Counter, Error, Histogram};
use atomseq::signal::{self, Event, Interrupted};

use demo_common::timer::{Timer, now};

use super::books::Books;
use super::pace::Pace;
use super::samples::Samples;

/// The state shared by the handlers of all threads.
pub struct Shared {
    pub samples: Samples,
    /// Records a program counter. Returns `false` if there is no room for it.
    record: fn(&Samples, usize) -> bool,
    /// Samples for which the table had no room.
    pub no_room: Counter,
    /// Words counted between two ticks that a handler handled.
    pub words_a_tick: Histogram,
    /// Nanoseconds between two ticks.
    interval: u64,
}

impl Shared {
    /// Creates the state for ticks at this interval, and a table of `entries` entries for each CPU.
    pub fn new(interval: u64, entries: usize) -> Result<Shared, Error> {
        Ok(Shared {
            samples: Samples::new(entries)?,
            record: Samples::record,
            no_room: Counter::try_new()?,
            words_a_tick: Histogram::try_powers_of_two()?,
            interval,
        })
    }
}

/// The state of one thread's handler. Only that thread and its handler use it, and the handler does
/// not interrupt itself. So loads and stores suffice; they are atomic because Rust requires it.
struct Watch<'s> {
    shared: &'s Shared,
    pace: &'s Pace,
    entries: AtomicU64,
    strangers: AtomicU64,
    overruns: AtomicU64,
    restarted: AtomicU64,
    rolled_forward: AtomicU64,
    left_alone: AtomicU64,
    words: AtomicU64,
    bytes: AtomicU64,
    last: AtomicU64,
    inside: AtomicU64,
}

per_thread! {
    /// This thread's watch, or null. The handler finds it here.
    static WATCH: AtomicPtr<Watch<'static>> = AtomicPtr::new(ptr::null_mut());
}

/// Signals that reached threads without a watch.
static ASTRAY: AtomicU64 = AtomicU64::new(0);

/// Returns the signal: the first real-time signal that the C library leaves to programs. A standard
/// signal would be pending only once while a thread defers it.
pub fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

/// Installs the handler.
pub fn install() -> Result<(), signal::Error> {
    // SAFETY: `on_tick` uses atomics, sequences and the clock. It neither allocates nor locks nor
    // panics, and its per-thread static exists from the thread's start.
    unsafe { signal::install(signal(), on_tick) }
}

/// Uninstalls the handler. No timer runs any more.
pub fn uninstall() -> Result<(), signal::Error> {
    signal::uninstall(signal())
}

/// Takes the number of signals that reached threads without a watch.
pub fn take_astray() -> u64 {
    // Relaxed: a sum.
    ASTRAY.swap(0, Ordering::Relaxed)
}

/// Runs `work` with a timer on this thread, and returns its result and the thread's books. If the
/// thread is refused a timer, runs `work` without one and returns the error.
pub fn during<R>(shared: &Shared, pace: &Pace, work: impl FnOnce() -> R) -> (R, io::Result<Books>) {
    let watch = Watch {
        shared,
        pace,
        entries: AtomicU64::new(0),
        strangers: AtomicU64::new(0),
        overruns: AtomicU64::new(0),
        restarted: AtomicU64::new(0),
        rolled_forward: AtomicU64::new(0),
        left_alone: AtomicU64::new(0),
        words: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        last: AtomicU64::new(0),
        inside: AtomicU64::new(0),
    };
    let started = Timer::new(signal()).and_then(|timer| {
        let watched = Watched::new(timer, &watch);
        let start = watched.timer.start(shared.interval)?;
        Ok((watched, start))
    });
    let result = work();
    let books = started.map(|(watched, start)| {
        drop(watched);
        // The timer is deleted, so no tick comes after this time.
        watch.books(start, now())
    });
    (result, books)
}

/// Makes the watch known to this thread's handler until it is dropped.
struct Watched<'w> {
    timer: Timer,
    _watch: &'w Watch<'w>,
}

impl<'w> Watched<'w> {
    fn new(timer: Timer, watch: &'w Watch<'w>) -> Watched<'w> {
        let address = ptr::from_ref(watch).cast_mut().cast();
        // Relaxed: only this thread's handler reads it.
        WATCH.with(|watch| watch.store(address, Ordering::Relaxed));
        Watched {
            timer,
            _watch: watch,
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.timer.stop();
        WATCH.with(|watch| watch.store(ptr::null_mut(), Ordering::Relaxed));
    }
}

impl Watch<'_> {
    /// Handles one tick of the timer, and the overruns if it was late.
    fn tick(&self, event: &Event<'_>) {
        add(&self.overruns, event.overrun().max(0) as u64);
        let shared = self.shared;
        if !(shared.record)(&shared.samples, program_counter(event)) {
            shared.no_room.increment();
        }
        match event.interrupted() {
            Interrupted::Restarted => add(&self.restarted, 1),
            Interrupted::RolledForward => add(&self.rolled_forward, 1),
            // The thread's update is half done, so its words stay for the next tick.
            Interrupted::Inside => return add(&self.left_alone, 1),
            _ => {}
        }
        let (words, bytes) = self.pace.take();
        add(&self.words, words as u64);
        add(&self.bytes, bytes as u64);
        shared.words_a_tick.record(words as u64);
    }

    fn books(&self, start: u64, end: u64) -> Books {
        let (interval, get) = (self.shared.interval, |word: &AtomicU64| {
            word.load(Ordering::Relaxed)
        });
        let ticks = end.saturating_sub(start) / interval;
        Books {
            entries: get(&self.entries),
            strangers: get(&self.strangers),
            overruns: get(&self.overruns),
            restarted: get(&self.restarted),
            rolled_forward: get(&self.rolled_forward),
            left_alone: get(&self.left_alone),
            words: get(&self.words),
            bytes: get(&self.bytes),
            inside: get(&self.inside),
            ticks,
            after_last: ticks.saturating_sub(get(&self.last).saturating_sub(start) / interval),
            timers: 1,
        }
    }
}

/// Handles the signal.
fn on_tick(event: &mut Event<'_>) {
    let begun = now();
    let watch = WATCH.with(|watch| watch.load(Ordering::Relaxed));
    // SAFETY: null, or this thread's watch, which `Watched` removes before its lifetime ends.
    let Some(watch) = (unsafe { watch.as_ref() }) else {
        // Relaxed: a sum.
        ASTRAY.fetch_add(1, Ordering::Relaxed);
        return;
    };
    add(&watch.entries, 1);
    if event.info().si_code == libc::SI_TIMER {
        watch.last.store(begun, Ordering::Relaxed);
        watch.tick(event);
    } else {
        add(&watch.strangers, 1);
    }
    add(&watch.inside, now() - begun);
}

/// Returns the program counter that the signal interrupted. atomseq's portable build does not know
/// it. But it does not move the thread either, so the kernel's record is right there.
fn program_counter(event: &Event<'_>) -> usize {
    match event.original_pc() {
        0 => interrupted_at(event.context().cast()),
        original => original,
    }
}

/// Returns the program counter in the kernel's record, or 0 on other architectures than these.
fn interrupted_at(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the context of this delivery, valid while its handler runs.
    let context = unsafe { &(*context).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return context.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    return context.pc as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return {
        let _ = context;
        0
    };
}

fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::super::books::Accounts;
    use super::super::passes::Outcome;
    use super::*;
    use std::time::{Duration, Instant};

    /// Returns the accounts of more threads than CPUs, each interrupted 5,000 times a second.
    fn accounts(record: fn(&Samples, usize) -> bool) -> Accounts {
        let mut shared = Shared::new(200_000, 1 << 10).unwrap();
        shared.record = record;
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let mut outcome = Outcome::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4 * cpus)
                .map(|_| scope.spawn(|| during(&shared, &Pace::default(), spin).1.unwrap()))
                .collect();
            for thread in threads {
                outcome.books += thread.join().unwrap();
            }
        });
        let recorded = shared.samples.merged().values().sum();
        Accounts::new(&outcome, recorded, shared.no_room.sum(), take_astray())
    }

    fn spin() {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_table_that_loses_samples_is_detected() {
        install().unwrap();
        let sound = accounts(Samples::record);
        let careless = accounts(Samples::record_carelessly);
        uninstall().unwrap();
        assert!(sound.entries > 1000, "{sound:?}");
        assert_eq!(sound.faults(), Vec::<String>::new(), "{sound:?}");
        assert!(careless.recorded < careless.entries, "{careless:?}");
        assert_eq!(careless.faults().len(), 1, "{careless:?}");
    }
}
