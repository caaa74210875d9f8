//! Requests that are fired at random at many threads, while those run, wait, sleep, spawn and join.
//! No thread is lost, none runs twice, none passes a safepoint after it was destroyed, and each
//! procedure is called at most once and dropped. The controls switch protections of the runtime
//! off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use atomseq_threads::runtime::{self, Destroyed, JoinHandle, Options, Protection, Runtime, Thread};
use verify_support::number_from_env;

/// The number of threads that exist at a time.
const WAVE: usize = 1000;

/// A thread that has not finished for so long, although nothing suspends it, is lost.
const LIMIT: Duration = Duration::from_secs(120);

/// How long the controls wait for it.
const SHORT: Duration = Duration::from_millis(200);

/// What happened to a thread.
#[derive(Default)]
struct Record {
    runs: AtomicU32,
    ends: AtomicU32,
    /// A request to destroy it has returned.
    is_destroyed: AtomicBool,
    /// How often it has begun to pass a safepoint after that, and has passed it.
    passed: AtomicU32,
}

/// How a thread has finished.
#[derive(Clone, Copy)]
enum End {
    Returned,
    Destroyed,
    Panicked,
    Never,
}

/// Returns what is wrong with a thread, if anything is.
fn fault(record: &Record, end: End) -> Option<&'static str> {
    let runs = record.runs.load(SeqCst);
    match end {
        _ if runs > 1 => Some("it has run twice"),
        End::Never => Some("it is lost"),
        End::Panicked => Some("it has panicked"),
        _ if record.ends.load(SeqCst) != runs => Some("its destructors have not run once"),
        End::Returned if runs == 0 => Some("it has returned and not run"),
        End::Destroyed if !record.is_destroyed.load(SeqCst) => Some("it was not to be destroyed"),
        _ if record.passed.load(SeqCst) > 0 => Some("it went on after it was destroyed"),
        _ => None,
    }
}

/// Counts an end.
struct Ends(Arc<Record>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ends.fetch_add(1, SeqCst);
    }
}

/// Counts procedures that are dropped, called or not.
struct Procedure(Arc<AtomicUsize>);

impl Drop for Procedure {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}

/// What each thread does: it passes safepoints of all kinds.
fn body(record: &Arc<Record>, number: usize) {
    record.runs.fetch_add(1, SeqCst);
    let _ends = Ends(Arc::clone(record));
    for round in 0..6 {
        let is_destroyed = record.is_destroyed.load(SeqCst);
        match (number + round) % 6 {
            0 => runtime::yield_now(),
            1 => runtime::sleep(Duration::from_micros(20)),
            2 => runtime::checkpoint(),
            3 => {
                runtime::current().unpark();
                runtime::park();
            }
            4 => drop(runtime::spawn(move || round).join()),
            _ => {
                // The first one is not the newest, so its join waits.
                let both = [0, 1].map(|n| runtime::spawn(move || n));
                both.into_iter().for_each(|one| drop(one.join()));
            }
        }
        record.passed.fetch_add(is_destroyed.into(), SeqCst);
    }
}

/// Fires that many requests at the threads of a wave. Returns how many procedures were made.
fn fire(threads: &[(Thread, Arc<Record>)], seed: u64, dropped: &Arc<AtomicUsize>) -> usize {
    let mut random = Random(seed | 1);
    let mut made = 0;
    for _ in 0..2 * threads.len() {
        let (thread, record) = &threads[random.below(threads.len())];
        match random.below(20) {
            0..6 => thread.suspend(),
            6..12 => thread.resume(),
            12..15 => drop(thread.step()),
            15..17 => {
                let procedure = Procedure(Arc::clone(dropped));
                thread.signal(move || drop(procedure));
                made += 1;
            }
            17 => {
                thread.destroy();
                record.is_destroyed.store(true, SeqCst);
            }
            _ => thread.unpark(),
        }
    }
    made
}

/// Runs a wave, and returns what was wrong with its threads.
fn wave(runtime: &Runtime, seed: u64) -> Vec<&'static str> {
    let dropped = Arc::default();
    let mut made = 0;
    let (mut handles, mut threads) = (Vec::new(), Vec::new());
    for number in 0..WAVE {
        let record = Arc::new(Record::default());
        let of_thread = Arc::clone(&record);
        let handle = runtime.spawn(move || body(&of_thread, number));
        threads.push((handle.thread(), record));
        handles.push(handle);
        // From the first one on, requests come while others are spawned.
        if number % 100 == 99 {
            made += fire(&threads[number - 99..], seed + number as u64, &dropped);
        }
    }
    std::thread::scope(|scope| {
        let fires = [1, 2].map(|n| {
            let (threads, dropped) = (&threads, &dropped);
            scope.spawn(move || fire(threads, seed.rotate_left(n), dropped))
        });
        made += fires.map(|one| one.join().unwrap()).iter().sum::<usize>();
    });
    for (thread, _) in &threads {
        thread.resume();
    }
    let begin = Instant::now();
    let mut faults = Vec::new();
    let mut lost = 0;
    for (handle, (thread, record)) in handles.into_iter().zip(threads) {
        while !handle.is_finished() && begin.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_micros(100));
        }
        drop(thread);
        let end = end_of(handle);
        lost += usize::from(matches!(end, End::Never));
        faults.extend(fault(&record, end));
    }
    // Those of a lost thread are not dropped.
    let in_time = || begin.elapsed() < LIMIT;
    while lost == 0 && dropped.load(SeqCst) < made && in_time() {
        std::thread::sleep(Duration::from_micros(100));
    }
    if lost == 0 && dropped.load(SeqCst) != made {
        faults.push("procedures were lost");
    }
    faults
}

fn end_of(handle: JoinHandle<()>) -> End {
    match handle.is_finished() {
        false => End::Never,
        true => match handle.join() {
            Ok(()) => End::Returned,
            Err(payload) if payload.is::<Destroyed>() => End::Destroyed,
            Err(_) => End::Panicked,
        },
    }
}

/// Few kernel threads, so that stacks are lent.
fn options() -> Options {
    let options = Options::new().workers(2).slice(Duration::from_millis(1));
    options.max_threads(64)
}

#[test]
fn random_requests_lose_no_thread_and_run_none_twice_or_after_its_end() {
    static SEED: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
    // The environment variable allows many more.
    let threads = number_from_env("ATOMSEQ_REQUESTS_THREADS", 20_000);
    let runtime = options().start().unwrap();
    for number in 0..usize::div_ceil(threads, WAVE) {
        let seed = SEED.fetch_add(0x2545_f491_4f6c_dd1d, SeqCst);
        let faults = wave(&runtime, seed);
        assert!(faults.is_empty(), "wave {number}: {:?}", faults[0]);
    }
    println!("requests: {threads} threads");
}

/// Runs one thread that passes checkpoints until the flag is set.
fn passes_checkpoints(
    runtime: &Runtime,
    is_over: &Arc<AtomicBool>,
) -> (JoinHandle<()>, Arc<Record>) {
    let record = Arc::new(Record::default());
    let (of_thread, is_over) = (Arc::clone(&record), Arc::clone(is_over));
    let handle = runtime.spawn(move || {
        of_thread.runs.fetch_add(1, SeqCst);
        let _ends = Ends(Arc::clone(&of_thread));
        while !is_over.load(SeqCst) {
            let is_destroyed = of_thread.is_destroyed.load(SeqCst);
            runtime::checkpoint();
            of_thread.passed.fetch_add(is_destroyed.into(), SeqCst);
        }
    });
    (handle, record)
}

fn until(what: &str, limit: Duration, is_true: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_true() && begin.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(limit != LIMIT || is_true(), "never: {what}");
}

#[test]
fn without_a_push_a_resumed_thread_is_lost() {
    let options = options().without(Protection::Resumption);
    let runtime = options.on_drop(runtime::OnDrop::Detach).start().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let (handle, record) = passes_checkpoints(&runtime, &is_over);
    let thread = handle.thread();
    thread.suspend();
    until("it is suspended", LIMIT, || thread.is_suspended());
    is_over.store(true, SeqCst);
    thread.resume();
    until("it has finished", SHORT, || handle.is_finished());
    assert_eq!(fault(&record, end_of(handle)), Some("it is lost"));
}

#[test]
fn without_unwinding_a_destroyed_thread_goes_on() {
    let options = options().without(Protection::Destruction);
    let runtime = options.start().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let (handle, record) = passes_checkpoints(&runtime, &is_over);
    until("it runs", LIMIT, || record.runs.load(SeqCst) == 1);
    handle.thread().destroy();
    record.is_destroyed.store(true, SeqCst);
    until("it goes on", LIMIT, || record.passed.load(SeqCst) > 0);
    is_over.store(true, SeqCst);
    until("it has finished", LIMIT, || handle.is_finished());
    let found = fault(&record, end_of(handle));
    assert_eq!(found, Some("it went on after it was destroyed"));
}

#[test]
fn each_fault_is_found() {
    let record = |runs, ends, is_destroyed, passed| Record {
        runs: AtomicU32::new(runs),
        ends: AtomicU32::new(ends),
        is_destroyed: AtomicBool::new(is_destroyed),
        passed: AtomicU32::new(passed),
    };
    assert_eq!(fault(&record(1, 1, false, 0), End::Returned), None);
    assert_eq!(fault(&record(0, 0, true, 0), End::Destroyed), None);
    let faults = [
        (record(2, 1, false, 0), End::Returned),
        (record(1, 0, false, 0), End::Returned),
        (record(1, 2, false, 0), End::Returned),
        (record(0, 0, false, 0), End::Returned),
        (record(1, 1, false, 0), End::Destroyed),
        (record(1, 1, true, 1), End::Destroyed),
        (record(1, 1, false, 0), End::Panicked),
        (record(1, 0, false, 0), End::Never),
    ];
    for (record, end) in faults {
        assert!(fault(&record, end).is_some());
    }
}
