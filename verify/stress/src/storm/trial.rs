//! One storm: workers, their handlers, timers, and the sibling that sends signals.

use std::cell::Cell;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::signal::{self, Event};
use verify_support::signals::install_short;
use verify_support::threads::this_thread;

use super::arena::{ACTORS, Arena, Outcome, THREAD};
use super::senders::{self, Post, SENT, TIMER, Timer, Victim, queued};
use super::sequences::Forms;

/// The period of the timers.
pub const PERIOD: Duration = Duration::from_micros(50);

/// How many operations a handler makes.
const IN_A_HANDLER: u32 = 3;

thread_local! {
    /// Initialized by the compiler, so that a handler may read it.
    static ARENA: Cell<*const Arena> = const { Cell::new(ptr::null()) };
}

static DELIVERED: AtomicU64 = AtomicU64::new(0);

/// The signals queued with values in this process.
pub static POST: Post = Post::new();

/// Makes the operations of a handler. Async-signal-safe.
pub fn handle<F: Forms>(number: i32) {
    DELIVERED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: set by this thread, which is inside `with_arena` for as long as it is not null.
    let Some(arena) = (unsafe { ARENA.get().as_ref() }) else {
        return;
    };
    let actor = match number {
        TIMER => 1,
        SENT => 2,
        _ => ACTORS - 1,
    };
    arena.check_words();
    for _ in 0..IN_A_HANDLER {
        arena.operate::<F>(actor);
    }
}

fn on_event<F: Forms>(event: &mut Event<'_>) {
    if event.signal() == queued() {
        POST.receive(event.value() as u64);
    }
    handle::<F>(event.signal());
}

/// Installs the handlers of all signals.
pub fn install<F: Forms>() {
    for number in [TIMER, SENT, queued()] {
        // SAFETY: the handler changes words that are there already, by sequences.
        unsafe { signal::install(number, on_event::<F>) }.expect("a signal without a manager");
    }
}

/// Installs a handler that does not belong to the library, and that a managed signal interrupts.
pub fn install_foreign() {
    extern "C" fn on_foreign(_: i32) {
        senders::signal(this_thread(), SENT);
    }
    install_short(senders::FOREIGN, on_foreign, libc::SA_RESTART);
}

/// The parameters of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// How many threads work.
    pub workers: usize,
    /// How many operations they make, together.
    pub operations: u64,
    /// Whether they use lists: a control may lose a number, but not a link.
    pub lists: bool,
    /// Whether signals of foreign handlers are sent, too.
    pub foreign: bool,
    /// The limit.
    pub limit: Duration,
}

/// Calls `work`; while it runs, this thread's handlers use the arena.
pub fn with_arena<R>(arena: &Arena, work: impl FnOnce() -> R) -> R {
    ARENA.set(arena);
    let result = work();
    ARENA.set(ptr::null());
    result
}

/// Makes so many operations, or fewer if `over`.
pub fn work<F: Forms>(arena: &Arena, operations: u64, over: &AtomicBool) {
    let mut made = 0;
    while made < operations && !over.load(Ordering::Relaxed) {
        for _ in 0..256 {
            arena.operate::<F>(THREAD);
        }
        made = arena.made_by_thread();
    }
}

/// The figures of a storm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The operations, and the failed checks.
    pub outcome: Outcome,
    /// Signals that the sibling sent.
    pub sent: u64,
    /// Handlers that ran.
    pub delivered: u64,
    /// Signals queued with values, and how many of them were lost or changed.
    pub post: (u64, u64),
    /// Sequences that were restarted and rolled forward, and signals that were deferred.
    pub handled: [u64; 3],
    /// How long it took.
    pub time: Duration,
}

impl Figures {
    /// Returns the number of failed checks, and of lost signals.
    pub fn wrong(&self) -> u64 {
        self.outcome.wrong + self.post.1
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            by_thread,
            by_handlers,
            ..
        } = self.outcome;
        let [restarts, rollforwards, deferrals] = self.handled;
        write!(
            f,
            "{by_thread} operations by threads, {by_handlers} by handlers; {} signals sent, {} with values; {} handled: \
             {restarts} restarts, {rollforwards} rollforwards, {deferrals} deferred; {} wrong; {} ms",
            self.sent,
            self.post.0,
            self.delivered,
            self.wrong(),
            self.time.as_millis()
        )
    }
}

/// Runs a storm until all workers have made their operations, or the limit is reached.
pub fn run<F: Forms>(storm: Storm) -> Figures {
    let (start, before, delivered) = (Instant::now(), signal::statistics(), delivered());
    let victims: Vec<Victim> = (0..storm.workers).map(|_| Victim::default()).collect();
    let (calm, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (outcome, sent) = thread::scope(|scope| {
        let working: Vec<_> = victims
            .iter()
            .map(|victim| scope.spawn(|| worker::<F>(victim, storm, &over)))
            .collect();
        let sending = scope.spawn(|| senders::send_until(&calm, &victims, &POST));
        while !working.iter().all(|worker| worker.is_finished()) {
            over.fetch_or(start.elapsed() > storm.limit, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(2));
        }
        let outcomes = working
            .into_iter()
            .map(|worker| worker.join().expect("a worker"));
        let outcome = outcomes.fold(Outcome::default(), Outcome::and);
        calm.store(true, Ordering::Relaxed);
        (outcome, sending.join().expect("the sibling"))
    });
    let after = signal::statistics();
    Figures {
        outcome,
        sent,
        delivered: self::delivered() - delivered,
        post: POST.check_final(),
        handled: [
            after.restarts - before.restarts,
            after.rollforwards - before.rollforwards,
            after.deferrals - before.deferrals,
        ],
        time: start.elapsed(),
    }
}

fn worker<F: Forms>(victim: &Victim, storm: Storm, over: &AtomicBool) -> Outcome {
    let arena = Arena::new(fastrand::u64(..), storm.lists);
    with_arena(&arena, || {
        victim.volunteer();
        let timer = Timer::start(TIMER, PERIOD);
        let foreign = storm
            .foreign
            .then(|| Timer::start(senders::FOREIGN, PERIOD * 3 / 2));
        work::<F>(&arena, storm.operations / storm.workers as u64, over);
        drop((timer, foreign));
        victim.resign();
    });
    arena.check_final()
}

/// Returns how many handlers have run.
pub fn delivered() -> u64 {
    DELIVERED.load(Ordering::Relaxed)
}
