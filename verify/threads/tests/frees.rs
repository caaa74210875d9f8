//! A scheduler neither allocates nor frees, for a thread that was preempted in the allocator may
//! need this very scheduler to go on. The allocator of this program counts the calls of schedulers.
//! It looks for a value of the current thread, too, whose entry it may have freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use atomseq_threads::runtime::{self, Inherited, Options, Protection};

struct Counts;

static CALLS_OF_SCHEDULERS: AtomicUsize = AtomicUsize::new(0);

fn count() {
    if runtime::is_scheduling() {
        CALLS_OF_SCHEDULERS.fetch_add(1, SeqCst);
    }
}

// SAFETY: passes everything on.
unsafe impl GlobalAlloc for Counts {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        count();
        if layout.align() == align_of::<Pages>() {
            look_without(address, layout.size());
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counts = Counts;

/// Owned by a closure, so that its thread's entry has pages of its own.
#[repr(align(0x10000))]
struct Pages(u8);

static LOOKS: AtomicUsize = AtomicUsize::new(0);
static VALUE: Inherited<u8> = Inherited::new();

/// Looks for the current thread's value while pages that were freed cannot be read.
fn look_without(address: *mut u8, size: usize) {
    let protect = |access| {
        // SAFETY: whole pages, which the allocator alone owns by now.
        assert_eq!(unsafe { libc::mprotect(address.cast(), size, access) }, 0);
    };
    protect(libc::PROT_NONE);
    assert!(VALUE.get().is_none());
    protect(libc::PROT_READ | libc::PROT_WRITE);
    LOOKS.fetch_add(1, SeqCst);
}

/// Runs a thread that frees its own entry.
fn run_detached() {
    // Unoptimized code copies the pages often.
    let options = Options::new().workers(1).stack_size(64 << 20);
    let runtime = options.start().unwrap();
    runtime.run(|| {
        let pages = Pages(1);
        drop(runtime::spawn(move || std::hint::black_box(&pages).0));
        runtime::yield_now();
    });
}

/// A test that waits so long has failed.
const LIMIT: Duration = Duration::from_secs(120);

fn until(what: &str, is_true: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

static IS_IN_GAP: AtomicBool = AtomicBool::new(false);
static HAS_FINISHED: AtomicBool = AtomicBool::new(false);
/// A gap was on the sleeper's own kernel thread, which cannot finish meanwhile.
static WAS_OWN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_SLEEPERS: Cell<bool> = const { Cell::new(false) };
}

/// Stays between the end of a sleeper's time and its wake until the sleeper has finished.
fn gap() {
    if IS_SLEEPERS.get() {
        return WAS_OWN.store(true, SeqCst);
    }
    let begin = Instant::now();
    IS_IN_GAP.store(true, SeqCst);
    while !HAS_FINISHED.load(SeqCst) && begin.elapsed() < LIMIT {
        core::hint::spin_loop();
    }
}

/// Returns how often a scheduler has allocated or freed, when it was left with the last reference
/// to a thread that another event has woken.
fn calls_with_the_last_reference(options: &Options) -> usize {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < LIMIT, "the role has never passed on");
        if let Some(calls) = attempt(options.clone()) {
            return calls;
        }
    }
}

/// Returns nothing if the sleeper's own kernel thread has seen the time come.
fn attempt(options: Options) -> Option<usize> {
    for flag in [&IS_IN_GAP, &HAS_FINISHED, &WAS_OWN] {
        flag.store(false, SeqCst);
    }
    let before = CALLS_OF_SCHEDULERS.load(SeqCst);
    let runtime = options.workers(2).gap(gap).start().unwrap();
    let sleeper = runtime.spawn(|| {
        IS_SLEEPERS.set(true);
        // The worker's role passes to the kernel thread of one of these, which sees the time come.
        for _ in 0..50 {
            drop(runtime::spawn(|| ()));
        }
        runtime::sleep(Duration::from_millis(50));
    });
    let thread = sleeper.thread();
    drop(sleeper);
    let was_own = || WAS_OWN.load(SeqCst);
    until("its time has come", || IS_IN_GAP.load(SeqCst) || was_own());
    if was_own() {
        return None;
    }
    thread.signal(|| ());
    drop(thread);
    until("the sleeper has finished", || runtime.threads() == 0);
    HAS_FINISHED.store(true, SeqCst);
    drop(runtime);
    Some(CALLS_OF_SCHEDULERS.load(SeqCst) - before)
}

/// Threads sleep, park, spawn and end, while others suspend, signal, step and destroy them.
fn storm() {
    const THREADS: usize = 2_000;
    let options = Options::new().workers(2).slice(Duration::from_millis(1));
    let runtime = options.max_threads(24).start().unwrap();
    let threads = Arc::new(Mutex::new(Vec::new()));
    for number in 0..THREADS {
        let handle = runtime.spawn(move || {
            for round in 0..5 {
                match (number + round) % 4 {
                    0 => runtime::yield_now(),
                    1 => runtime::sleep(Duration::from_micros(100)),
                    2 => drop(runtime::spawn(|| Box::new(1)).join()),
                    _ => drop(runtime::spawn(runtime::yield_now)),
                }
            }
        });
        threads.lock().unwrap().push(handle.thread());
        let threads = threads.lock().unwrap();
        let thread = &threads[number * 7 % threads.len()];
        match number % 6 {
            0 => thread.suspend(),
            1 => drop(thread.step()),
            2 => thread.signal(|| ()),
            3 if number % 5 == 0 => thread.destroy(),
            _ => thread.resume(),
        }
    }
    // Each has but its own reference then.
    for thread in threads.lock().unwrap().drain(..) {
        thread.resume();
    }
    drop(runtime);
}

/// One test: the count is the program's.
#[test]
fn a_scheduler_neither_allocates_nor_frees() {
    run_detached();
    assert!(LOOKS.load(SeqCst) > 0);
    assert_eq!(calls_with_the_last_reference(&Options::new()), 0);
    let before = CALLS_OF_SCHEDULERS.load(SeqCst);
    storm();
    assert_eq!(CALLS_OF_SCHEDULERS.load(SeqCst), before);
    let without = Options::new().without(Protection::LaterFrees);
    assert!(calls_with_the_last_reference(&without) > 0);
}
