//! `threads`: user-level threads. The workloads: a switch there and back; a thread made, run and
//! joined; two that take turns by a condition variable, or by channels; one preempted by a signal;
//! and a lock that no other thread holds.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use atomseq_threads::coroutine;
use atomseq_threads::runtime::{self, Options, Runtime};
use corosensei::stack::DefaultStack;
use corosensei::{CoroutineResult, Yielder};

use super::{Experiment, Method, Threads, cases};
use crate::bench::engine::Subject;
use crate::bench::fault::Fault;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "threads",
    about: "user-level threads: switching to another one and back, making and joining one, taking turns, sending messages, preempting one, an uncontended lock",
    cases: cases! {
        "switch:atomseq", "coroutine::yield_now, which lets another one run that does the same",
            |_| Counted::boxed(switch_atomseq);
        "switch:atomseq-to", "Coroutine::yield_to, which names the other one", |_| Counted::boxed(switch_atomseq_to);
        "switch:atomseq-generator", "Generator::next, and Yielder::suspend back", |_| Counted::boxed(switch_generator);
        "switch:corosensei", "a coroutine of the crate corosensei, resumed and suspended",
            |_| Counted::boxed(switch_corosensei);
        #[cfg(target_env = "gnu")]
        "switch:swapcontext", "two calls of swapcontext",
            |_| Counted::boxed(swapcontext::switch);
        "spawn:atomseq", "coroutine::spawn and join", |_| Counted::boxed(spawn_atomseq);
        "spawn:runtime", "runtime::spawn and join, by a thread of a runtime with one worker",
            |_| Counted::boxed(spawn_runtime);
        "spawn:runtime-outside", "Runtime::spawn and join, by a thread of std",
            |_| Counted::boxed(spawn_outside);
        "spawn:may", "a coroutine of the crate may, spawned and joined by another one, with one worker",
            |_| Counted::boxed(spawn_may);
        "spawn:corosensei", "a coroutine of corosensei on a stack that is used again",
            |_| Counted::boxed(spawn_corosensei);
        "spawn:std", "std::thread::spawn and join", |_| Counted::boxed(spawn_std);
        "outside:runtime", "Runtime::spawn and join, by a thread of std; it and the one worker may use all CPUs",
            |_| Counted::boxed(|operations| on_all_cpus(move || outside_runtime(operations)));
        "outside:may", "a coroutine of may, spawned and joined by a thread of std, likewise",
            |_| Counted::boxed(|operations| on_all_cpus(move || outside_may(operations)));
        "outside:std", "std::thread::spawn and join, likewise",
            |_| Counted::boxed(|operations| on_all_cpus(move || spawn_std(operations)));
        "pingpong:atomseq", "two coroutines that take turns by coroutine::Mutex and Condvar",
            |_| Counted::boxed(pingpong_atomseq);
        "pingpong:std", "two threads of std, by its Mutex and Condvar", |_| Counted::boxed(pingpong_std);
        "channel:atomseq", "a message to another coroutine, and its answer, by coroutine::channel",
            |_| Counted::boxed(channel_atomseq);
        "channel:std", "the same between threads of std, by std::sync::mpsc", |_| Counted::boxed(channel_std);
        "preempt:atomseq", "a signal that preempts a coroutine, and coroutine::yield_now back",
            |_| Counted::boxed(preempt_atomseq);
        "preempt:signal", "a signal whose handler does nothing", |_| Counted::boxed(preempt_signal);
        "lock:atomseq", "coroutine::Mutex, inside of a coroutine", |_| Counted::boxed(lock_atomseq);
        "lock:parking_lot", "parking_lot::Mutex", |_| Counted::boxed(lock_parking_lot);
        "lock:std", "std::sync::Mutex", |_| Counted::boxed(lock_std);
    },
    peers: &[
        "corosensei",
        "may",
        "swapcontext",
        "std",
        "parking_lot",
        "signal",
    ],
    method: Method::Timed,
    threads: Threads::Alone,
    beside: None,
};

/// A way to do that many operations, which returns how many another thread, or the lock, has
/// counted.
pub(super) type Work = fn(u64) -> u64;

pub(super) struct Counted {
    work: Work,
    counted: AtomicU64,
}

impl Counted {
    pub(super) fn boxed(work: Work) -> Box<dyn Subject> {
        let counted = AtomicU64::new(0);
        Box::new(Counted { work, counted })
    }
}

impl Subject for Counted {
    fn run(&self, _thread: usize, operations: u64) {
        // Relaxed: read after the threads have met at the crew's mutex.
        self.counted
            .fetch_add((self.work)(operations), Ordering::Relaxed);
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        // Relaxed: as above.
        let counted = self.counted.load(Ordering::Relaxed);
        (counted == operations).then_some(()).ok_or_else(|| {
            let sentence = format!("{counted} of {operations} operations were counted");
            Fault::count(operations, [counted], sentence)
        })
    }
}

/// Calls `f` as the first coroutine of a run.
pub(super) fn in_coroutine<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the experiments switch inside of no thread-local's initial value, destructor or
    // scope; corosensei's coroutines are in no run.
    unsafe { coroutine::run(f) }
}

pub(super) fn switch_atomseq(operations: u64) -> u64 {
    in_coroutine(|| {
        let (turns, is_done) = (Cell::new(0), Rc::new(Cell::new(false)));
        let is_over = Rc::clone(&is_done);
        let other = coroutine::spawn(move || {
            while !is_over.get() {
                turns.set(turns.get() + 1);
                coroutine::yield_now();
            }
            turns.get()
        });
        for _ in 0..operations {
            coroutine::yield_now();
        }
        is_done.set(true);
        other.join().unwrap_or(0)
    })
}

fn switch_atomseq_to(operations: u64) -> u64 {
    in_coroutine(|| {
        let (turns, is_done) = (Cell::new(0), Rc::new(Cell::new(false)));
        let (first, is_over) = (coroutine::current(), Rc::clone(&is_done));
        let other = coroutine::spawn(move || {
            while !is_over.get() {
                turns.set(turns.get() + 1);
                first.yield_to();
            }
            turns.get()
        });
        for _ in 0..operations {
            other.coroutine().yield_to();
        }
        is_done.set(true);
        other.join().unwrap_or(0)
    })
}

fn switch_generator(operations: u64) -> u64 {
    let counts = |yielder: &coroutine::Yielder<u64>| {
        for turn in 1.. {
            yielder.suspend(turn);
        }
    };
    // SAFETY: no thread-local owns it, and it suspends in no scope of one.
    let mut turns = unsafe { coroutine::Generator::new(counts) };
    for _ in 1..operations {
        turns.next();
    }
    turns.next().unwrap_or(0)
}

fn switch_corosensei(operations: u64) -> u64 {
    let turns = Cell::new(0);
    let mut other =
        corosensei::Coroutine::new(move |yielder: &Yielder<_, _>, mut goes_on: bool| {
            while goes_on {
                turns.set(turns.get() + 1);
                goes_on = yielder.suspend(());
            }
            turns.get()
        });
    for _ in 0..operations {
        other.resume(true);
    }
    match other.resume(false) {
        CoroutineResult::Return(turns) => turns,
        CoroutineResult::Yield(()) => 0,
    }
}

fn spawn_atomseq(operations: u64) -> u64 {
    in_coroutine(|| {
        (0..operations)
            .map(|_| coroutine::spawn(|| black_box(1)).join().unwrap_or(0))
            .sum()
    })
}

fn spawn_corosensei(operations: u64) -> u64 {
    let mut stack = Some(DefaultStack::default());
    let mut spawn = || {
        let mut other =
            corosensei::Coroutine::<(), (), u64>::with_stack(stack.take()?, |_, ()| black_box(1));
        let result = other.resume(()).as_return();
        stack = Some(other.into_stack());
        result
    };
    (0..operations).filter_map(|_| spawn()).sum()
}

/// Returns the runtime of all runs.
fn one_worker() -> Option<&'static Runtime> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let start = || Options::new().workers(1).start().ok();
    RUNTIME.get_or_init(start).as_ref()
}

fn spawn_runtime(operations: u64) -> u64 {
    one_worker().map_or(0, |runtime| {
        runtime.run(|| {
            (0..operations)
                .map(|_| runtime::spawn(|| black_box(1)).join().unwrap_or(0))
                .sum()
        })
    })
}

fn spawn_outside(operations: u64) -> u64 {
    one_worker().map_or(0, |runtime| {
        (0..operations)
            .map(|_| runtime.spawn(|| black_box(1)).join().unwrap_or(0))
            .sum()
    })
}

/// Calls `work` in a thread that may use all CPUs.
fn on_all_cpus(work: impl FnOnce() -> u64 + Send + 'static) -> u64 {
    let on_all = move || {
        use_all_cpus();
        work()
    };
    std::thread::spawn(on_all).join().unwrap_or(0)
}

/// Lets the calling kernel thread use all CPUs that the process may use.
fn use_all_cpus() {
    // SAFETY: plain old data; the kernel leaves out the CPUs that there are not.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn outside_runtime(operations: u64) -> u64 {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let start = || Options::new().workers(1).start().ok();
    let runtime = RUNTIME.get_or_init(start).as_ref();
    runtime.map_or(0, |runtime| {
        (0..operations)
            .map(|_| runtime.spawn(|| black_box(1)).join().unwrap_or(0))
            .sum()
    })
}

fn outside_may(operations: u64) -> u64 {
    may::config().set_workers(1);
    // SAFETY: neither of the closures uses thread-locals, nor much of its stack.
    unsafe {
        // Its one worker is pinned if a pinned thread was the first to spawn.
        let _ = may::coroutine::spawn(use_all_cpus).join();
        (0..operations)
            .map(|_| may::coroutine::spawn(|| black_box(1)).join().unwrap_or(0))
            .sum()
    }
}

fn spawn_may(operations: u64) -> u64 {
    may::config().set_workers(1);
    // SAFETY: neither of the closures uses thread-locals, nor much of its stack.
    let all = unsafe {
        may::coroutine::spawn(move || {
            (0..operations)
                .map(|_| may::coroutine::spawn(|| black_box(1)).join().unwrap_or(0))
                .sum()
        })
    };
    all.join().unwrap_or(0)
}

fn spawn_std(operations: u64) -> u64 {
    (0..operations)
        .map(|_| std::thread::spawn(|| black_box(1)).join().unwrap_or(0))
        .sum()
}

/// Two coroutines add to a number in turns, each `operations` times. Returns how often the second
/// one has.
fn pingpong_atomseq(operations: u64) -> u64 {
    in_coroutine(|| {
        let (turn, changed) = (coroutine::Mutex::new(0), coroutine::Condvar::new());
        let play = |parity| {
            for _ in 0..operations {
                let mut turn = turn.lock();
                changed.wait_while(&mut turn, |turn| *turn % 2 != parity);
                *turn += 1;
                changed.notify_one();
            }
        };
        coroutine::scope(|scope| {
            drop(scope.spawn(|| play(1)));
            play(0);
        });
        turn.into_inner() / 2
    })
}

fn pingpong_std(operations: u64) -> u64 {
    let (turn, changed) = (Mutex::new(0), Condvar::new());
    let play = |parity| {
        for _ in 0..operations {
            let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let mut turn = changed
                .wait_while(turn, |turn| *turn % 2 != parity)
                .unwrap_or_else(PoisonError::into_inner);
            *turn += 1;
            changed.notify_one();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(1));
        play(0);
    });
    turn.into_inner().unwrap_or_else(PoisonError::into_inner) / 2
}

/// Returns how many messages were answered.
fn channel_atomseq(operations: u64) -> u64 {
    in_coroutine(|| {
        let (asking, asked) = coroutine::channel::bounded(1);
        let (answering, answers) = coroutine::channel::bounded(1);
        drop(coroutine::spawn(move || {
            for question in asked.iter() {
                let _ = answering.send(question + 1);
            }
        }));
        (0..operations)
            .filter(|&n| asking.send(n).is_ok() && answers.recv() == Ok(n + 1))
            .count() as u64
    })
}

fn channel_std(operations: u64) -> u64 {
    let (asking, asked) = mpsc::sync_channel(1);
    let (answering, answers) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for question in asked {
                let _ = answering.send(question + 1);
            }
        });
        let count = (0..operations)
            .filter(|&n| asking.send(n).is_ok() && answers.recv() == Ok(n + 1))
            .count();
        drop(asking);
        count as u64
    })
}

/// Sends the signal to the calling thread, by one system call and nothing else.
fn send(signal: libc::c_int) {
    // SAFETY: the process and thread are the caller's.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
}

fn preempt_atomseq(operations: u64) -> u64 {
    // SAFETY: nothing is called.
    unsafe { preempted(operations, || ()) }
}

/// Calls `before` and sends a tick, that many times. Returns how often another coroutine ran.
///
/// # Safety
///
/// `before` does what [`coroutine::preemptible`] allows.
pub(super) unsafe fn preempted(operations: u64, before: fn()) -> u64 {
    /// Longer than a run, so that all ticks are those that are sent.
    const SLICE: Duration = Duration::from_secs(3600);
    let work = || {
        let (turns, is_done) = (Cell::new(0), Rc::new(Cell::new(false)));
        let is_over = Rc::clone(&is_done);
        let other = coroutine::spawn(move || {
            while !is_over.get() {
                turns.set(turns.get() + 1);
                coroutine::yield_now();
            }
            turns.get()
        });
        for _ in 0..operations {
            let tick = || {
                before();
                send(coroutine::DEFAULT_SIGNAL);
            };
            // SAFETY: makes system calls, and calls what the caller promises is allowed.
            unsafe { coroutine::preemptible(tick) };
        }
        is_done.set(true);
        other.join().unwrap_or(0)
    };
    // SAFETY: as in `in_coroutine`.
    let ran = unsafe { coroutine::Builder::new().slice(SLICE).run(work) };
    ran.unwrap_or(0)
}

pub(super) fn preempt_signal(operations: u64) -> u64 {
    thread_local! {
        static HANDLED: Cell<u64> = const { Cell::new(0) };
    }
    extern "C" fn handle(_signal: libc::c_int) {
        HANDLED.set(HANDLED.get() + 1);
    }
    let before = HANDLED.get();
    // SAFETY: the handler counts.
    unsafe { libc::signal(libc::SIGUSR2, handle as *const () as libc::sighandler_t) };
    for _ in 0..operations {
        send(libc::SIGUSR2);
    }
    HANDLED.get() - before
}

fn lock_atomseq(operations: u64) -> u64 {
    in_coroutine(|| {
        let count = coroutine::Mutex::new(0);
        for _ in 0..operations {
            *black_box(&count).lock() += 1;
        }
        count.into_inner()
    })
}

fn lock_parking_lot(operations: u64) -> u64 {
    let count = parking_lot::Mutex::new(0);
    for _ in 0..operations {
        *black_box(&count).lock() += 1;
    }
    count.into_inner()
}

fn lock_std(operations: u64) -> u64 {
    let count = Mutex::new(0);
    for _ in 0..operations {
        *black_box(&count)
            .lock()
            .unwrap_or_else(PoisonError::into_inner) += 1;
    }
    count.into_inner().unwrap_or(0)
}

/// The C library's contexts.
#[cfg(target_env = "gnu")]
mod swapcontext {
    use std::cell::UnsafeCell;
    use std::ptr;

    use libc::ucontext_t;

    /// Two contexts, a stack, and what the second one counts.
    struct Two {
        first: ucontext_t,
        second: ucontext_t,
        stack: Vec<u8>,
        turns: u64,
    }

    thread_local! {
        static TWO: UnsafeCell<*mut Two> = const { UnsafeCell::new(ptr::null_mut()) };
    }

    extern "C" fn second() {
        // SAFETY: `switch` sets it for as long as this runs, and uses it only while this does not.
        unsafe {
            let two = TWO.with(|two| *two.get());
            loop {
                (*two).turns += 1;
                libc::swapcontext(&raw mut (*two).second, &raw const (*two).first);
            }
        }
    }

    /// Switches to a second context and back.
    pub fn switch(operations: u64) -> u64 {
        // SAFETY: plain old data. The second context has a stack that outlives it, and its function
        // never returns.
        unsafe {
            let mut two = Box::new(Two {
                first: std::mem::zeroed(),
                second: std::mem::zeroed(),
                stack: vec![0; 64 * 1024],
                turns: 0,
            });
            let two = &raw mut *two;
            TWO.with(|place| *place.get() = two);
            libc::getcontext(&raw mut (*two).second);
            (*two).second.uc_stack.ss_sp = (*two).stack.as_mut_ptr().cast();
            (*two).second.uc_stack.ss_size = (*two).stack.len();
            libc::makecontext(&raw mut (*two).second, second, 0);
            for _ in 0..operations {
                libc::swapcontext(&raw mut (*two).first, &raw const (*two).second);
            }
            (*two).turns
        }
    }
}
