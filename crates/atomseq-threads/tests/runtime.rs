//! The runtime: outcomes, waits, what a closure may do, levels, requests, drops and bad input.

mod support;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use atomseq_threads::coroutine::{self, Generator, Yielder};
use atomseq_threads::runtime::{
    self, Builder, Destroyed, Error, Inherited, LEVELS, OnDrop, Options, Runtime, Thread,
};

use support::{run, run_with};

/// Longer than any wait of a test on the slowest machine. A test that waits so long has failed.
const LIMIT: Duration = Duration::from_secs(120);

fn with_workers(count: usize) -> Runtime {
    Options::new().workers(count).start().unwrap()
}

/// Waits, as a kernel thread, until that is true.
fn until(what: &str, is_true: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(begin.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Computes without a safepoint or a system call until the flag is set.
fn hog(until: &AtomicBool) {
    let begin = Instant::now();
    while !until.load(SeqCst) {
        for _ in 0..1000 {
            core::hint::spin_loop();
        }
        assert!(begin.elapsed() < LIMIT, "the flag of a hog was never set");
    }
}

#[test]
fn a_join_returns_the_result_or_the_panic() {
    let runtime = with_workers(2);
    assert_eq!(runtime.spawn(|| 6 * 7).join().unwrap(), 42);
    let payload = runtime.spawn(|| std::panic::panic_any(3)).join();
    assert_eq!(payload.unwrap_err().downcast_ref(), Some(&3));
    let inner = runtime.run(|| {
        let panicked = runtime::spawn(|| std::panic::panic_any("inside"));
        let number = runtime::spawn(|| 1);
        let all: Vec<_> = (0..100).map(|n| runtime::spawn(move || n)).collect();
        let sum: u32 = all.into_iter().map(|one| one.join().unwrap()).sum();
        (panicked.join().is_err(), number.join().unwrap(), sum)
    });
    assert_eq!(inner, (true, 1, 4950));
}

#[test]
fn each_thread_runs_once() {
    const THREADS: usize = 20_000;
    let runtime = with_workers(4);
    let runs: Arc<Vec<AtomicU32>> = Arc::new((0..2 * THREADS).map(|_| AtomicU32::new(0)).collect());
    let from = |first: usize| {
        let runs = Arc::clone(&runs);
        move || {
            for number in first..first + THREADS {
                let runs = Arc::clone(&runs);
                drop(runtime::spawn(move || runs[number].fetch_add(1, SeqCst)));
                if number % 97 == 0 {
                    runtime::yield_now();
                }
            }
        }
    };
    let (one, two) = (runtime.spawn(from(0)), runtime.spawn(from(THREADS)));
    one.join().unwrap();
    two.join().unwrap();
    drop(runtime);
    assert!(runs.iter().all(|runs| runs.load(SeqCst) == 1));
}

#[test]
fn joins_nest_as_deep_as_threads_do() {
    fn depth(n: u32) -> u32 {
        // More than one stack holds.
        let frame = std::hint::black_box([0u8; 16 * 1024]);
        match n {
            0 => frame[0].into(),
            n => runtime::spawn(move || depth(n - 1)).join().unwrap() + 1,
        }
    }
    let runtime = Options::new().workers(1).stack_size(512 * 1024).start();
    assert_eq!(runtime.unwrap().run(|| depth(200)), 200);
}

#[test]
fn a_scope_lends_what_outlives_it() {
    let runtime = with_workers(2);
    let mut numbers = vec![1, 2, 3, 4];
    let total = AtomicUsize::new(0);
    runtime.scope(|scope| {
        for number in &mut numbers {
            let total = &total;
            scope.spawn(move || {
                *number *= 10;
                total.fetch_add(*number, SeqCst);
            });
        }
    });
    assert_eq!((numbers, total.into_inner()), (vec![10, 20, 30, 40], 100));
    let panicked = std::panic::catch_unwind(|| {
        runtime.scope(|scope| {
            scope.spawn(|| std::panic::panic_any(()));
        });
    });
    assert!(
        panicked.is_err(),
        "a panic that no join reports is the scope's"
    );
    let joined = runtime.scope(|scope| scope.spawn(|| std::panic::panic_any(())).join());
    assert!(joined.is_err());
}

#[test]
fn a_scope_ends_also_if_a_closure_that_it_refuses_panics() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("refused");
        }
    }
    let runtime = with_workers(1);
    let ends = std::thread::spawn(move || {
        runtime.scope(|scope| {
            let panics = Panics;
            let refused = move || drop(panics);
            drop(Builder::new().level(LEVELS).spawn_scoped(scope, refused));
        });
    });
    until("the scope ends", || ends.is_finished());
    assert_eq!(ends.join().unwrap_err().downcast_ref(), Some(&"refused"));
}

#[test]
fn a_result_that_borrows_is_dropped_before_its_scope_ends() {
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let runtime = with_workers(2);
    for _ in 0..200 {
        let drops = AtomicUsize::new(0);
        let mut thread = None;
        runtime.scope(|scope| {
            let handle = scope.spawn(|| Counts(&drops));
            // It keeps the memory, and must not keep the result.
            thread = Some(handle.thread());
        });
        assert_eq!(drops.load(SeqCst), 1);
        assert!(thread.unwrap().is_finished());
    }
}

#[test]
fn a_closure_that_never_yields_does_not_freeze_the_others() {
    let runtime = with_workers(1);
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let hogs = runtime.spawn(move || hog(&flag));
    let other = runtime.spawn(move || is_over.store(true, SeqCst));
    hogs.join().unwrap();
    other.join().unwrap();
}

#[test]
fn a_closure_that_blocks_does_not_freeze_the_others() {
    let runtime = with_workers(1);
    let (send, receive) = mpsc::channel();
    let blocked = runtime.spawn(move || receive.recv_timeout(LIMIT));
    // In a pipe as well, of which the kernel restarts reads.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let reads = runtime.spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    let sends = runtime.spawn(move || {
        use std::io::Write;
        send.send(7).unwrap();
        (&writer).write_all(b"written").unwrap();
    });
    sends.join().unwrap();
    assert_eq!(blocked.join().unwrap(), Ok(7));
    assert_eq!(reads.join().unwrap(), "written");
}

#[test]
fn closures_may_do_what_threads_may() {
    thread_local! {
        static LOCAL: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    }
    const THREADS: usize = 12;
    let runtime = Options::new().workers(2).slice(Duration::from_millis(1));
    let runtime = runtime.start().unwrap();
    let shared = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let shared = Arc::clone(&shared);
            runtime.spawn(move || {
                let begin = Instant::now();
                let mut text = String::new();
                let mut rounds = 0;
                while begin.elapsed() < Duration::from_millis(60) || rounds < 50 {
                    text = format!("{text:.20}{rounds}");
                    LOCAL.with_borrow_mut(|local| local.push(text.len()));
                    let boxes: Vec<Box<usize>> = (0..50).map(Box::new).collect();
                    let mut shared = shared.lock().unwrap();
                    shared.push(boxes.len() + number);
                    if shared.len() > 1000 {
                        shared.clear();
                    }
                    drop(shared);
                    print!("{}", &text[..0]);
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().unwrap() >= 50);
    }
}

#[test]
fn sleepers_wake_in_order_and_not_early() {
    const TIMES: [u64; 6] = [60, 10, 40, 20, 50, 30];
    let runtime = with_workers(1);
    let is_in_order = || {
        let order = Mutex::new(Vec::new());
        runtime.scope(|scope| {
            for time in TIMES {
                let order = &order;
                scope.spawn(move || {
                    let begin = Instant::now();
                    runtime::sleep(Duration::from_millis(time));
                    assert!(begin.elapsed() >= Duration::from_millis(time));
                    order.lock().unwrap().push(time);
                });
            }
        });
        order.into_inner().unwrap().is_sorted()
    };
    // Where the machine delays one of them by 10 ms, the order may be another one. By chance, one
    // attempt in 720 is in order.
    assert!((0..20).any(|_| is_in_order()));
}

#[test]
fn a_sleeper_wakes_beside_a_closure_that_never_yields() {
    let runtime = with_workers(1);
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let sleeper = runtime.spawn(move || {
        runtime::sleep(Duration::from_millis(30));
        flag.store(true, SeqCst);
    });
    runtime.run(|| hog(&is_over));
    sleeper.join().unwrap();
}

#[test]
fn an_unpark_is_kept_for_the_next_park() {
    let runtime = with_workers(2);
    let (send, receive) = mpsc::channel();
    let parked = runtime.spawn(move || {
        runtime::current().unpark();
        runtime::park();
        // What waits for a thread does not consume it.
        runtime::current().unpark();
        runtime::spawn(|| runtime::sleep(Duration::from_millis(1)))
            .join()
            .unwrap();
        runtime::park();
        send.send(()).unwrap();
        runtime::park();
        1
    });
    receive.recv_timeout(LIMIT).unwrap();
    parked.thread().unpark();
    assert_eq!(parked.join().unwrap(), 1);
}

#[test]
fn two_threads_take_turns_by_parking() {
    const ROUNDS: u32 = 2000;
    for workers in [1, 2] {
        let runtime = with_workers(workers);
        let turn = Arc::new(AtomicU32::new(0));
        let peer: Arc<Mutex<Option<runtime::Thread>>> = Arc::default();
        let play = |own: u32, wake: Box<dyn Fn() + Send>| {
            let turn = Arc::clone(&turn);
            move || {
                while turn.load(SeqCst) < ROUNDS {
                    match turn.load(SeqCst) % 2 == own {
                        true => {
                            turn.fetch_add(1, SeqCst);
                            wake();
                        }
                        false => runtime::park(),
                    }
                }
                wake();
            }
        };
        let to_second = Arc::clone(&peer);
        let wake_second = move || {
            if let Some(second) = &*to_second.lock().unwrap() {
                second.unpark();
            }
        };
        let first = runtime.spawn(play(0, Box::new(wake_second)));
        let thread = first.thread();
        let second = runtime.spawn(play(1, Box::new(move || thread.unpark())));
        *peer.lock().unwrap() = Some(second.thread());
        second.thread().unpark();
        first.join().unwrap();
        second.join().unwrap();
        assert!(turn.load(SeqCst) >= ROUNDS);
    }
}

/// Returns the levels of threads of three levels in the order of their turns.
fn turns_of_three_levels() -> Vec<usize> {
    const TURNS: usize = 6000;
    // A thread that is preempted while it holds the lock would cost the others turns.
    let options = Options::new().workers(1).slice(Duration::MAX);
    let runtime = options.start().unwrap();
    let log = Arc::new(Mutex::new(Vec::new()));
    runtime.run(|| {
        let threads: Vec<_> = (0..3)
            .map(|level| {
                let log = Arc::clone(&log);
                Builder::new()
                    .level(level)
                    .spawn(move || {
                        // All have begun, and none has finished, while turns are counted.
                        while log.lock().unwrap().len() < TURNS {
                            log.lock().unwrap().push(usize::from(level));
                            runtime::yield_now();
                        }
                    })
                    .unwrap()
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    std::mem::take(&mut log.lock().unwrap())
}

#[test]
fn each_level_has_half_the_turns_of_the_one_above() {
    let (mut counts, mut turns) = ([0; 3], 0);
    for _ in 0..100 {
        for window in turns_of_three_levels().chunks(28) {
            let count = |level| window.iter().filter(|&&of| of == level).count();
            let now = [0, 1, 2].map(count);
            // The system may preempt a thread's kernel thread. Then the others take its turns.
            if !now.contains(&0) {
                (0..3).for_each(|level| counts[level] += now[level]);
                turns += window.len();
            }
        }
        if turns > 3000 {
            break;
        }
    }
    assert!(turns > 3000, "{counts:?}");
    // Of seven turns, 4, 2 and 1.
    let share = |level: usize| counts[level] * 7 / turns;
    assert!((3..=4).contains(&share(0)), "{counts:?}");
    assert!((1..=2).contains(&share(1)), "{counts:?}");
    assert!(counts[2] >= turns / 10, "{counts:?}");
}

#[test]
fn a_thread_inherits_its_spawners_name_and_level() {
    let runtime = with_workers(1);
    let builder = Builder::new().name("parent").level(5);
    let parent = builder.spawn_on(&runtime, || {
        let child = runtime::spawn(|| {
            let current = runtime::current();
            (current.name().map(str::to_owned), current.level())
        });
        child.join().unwrap()
    });
    assert_eq!(
        parent.unwrap().join().unwrap(),
        (Some("parent".to_owned()), 5)
    );
}

/// Says when it is dropped.
struct Noted(u32, Arc<AtomicU32>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_thread_inherits_values_and_changes_its_own() {
    static FIRST: Inherited<Noted> = Inherited::new();
    static SECOND: Inherited<u32> = Inherited::new();
    let first = || FIRST.get().map(|noted| noted.0);
    let second = || SECOND.get().as_deref().copied();
    let drops = Arc::new(AtomicU32::new(0));
    assert_eq!(first(), None);

    let runtime = with_workers(2);
    runtime.run(|| {
        assert_eq!((first(), second()), (None, None));
        FIRST.set(Noted(1, Arc::clone(&drops)));
        SECOND.set(10);
        // Several levels, of which each changes one.
        let child = runtime::spawn(move || {
            assert_eq!((first(), second()), (Some(1), Some(10)));
            SECOND.set(11);
            let grandchild = runtime::spawn(move || (first(), second()));
            assert_eq!(grandchild.join().unwrap(), (Some(1), Some(11)));
            second()
        });
        SECOND.set(12);
        assert_eq!(child.join().unwrap(), Some(11));
        assert_eq!((first(), second()), (Some(1), Some(12)));
        // The threads of a scope, and the value before comes back after a panic.
        let panic = std::panic::catch_unwind(|| {
            SECOND.scope(13, || {
                let seen = runtime::scope(|scope| scope.spawn(second).join().unwrap());
                assert_eq!(seen, Some(13));
                std::panic::resume_unwind(Box::new(0));
            })
        });
        assert!(panic.is_err());
        assert_eq!(second(), Some(12));
        assert_eq!(drops.load(SeqCst), 0);
        let before = FIRST.set(Noted(2, Arc::clone(&drops)));
        assert_eq!(before.map(|noted| noted.0), Some(1));
        until("the last reference is dropped", || drops.load(SeqCst) == 1);
    });
    // The closure has returned, so its thread has given the second one up.
    assert_eq!(drops.load(SeqCst), 2);
    // A thread that is spawned outside begins with none, whatever ran before on its stack.
    assert_eq!(
        runtime.spawn(move || (first(), second())).join().unwrap(),
        (None, None)
    );
}

/// A generator that its thread leaves in the middle of a scope, in a thread-local: the scope's end
/// changes no other thread, and is possible where there is none.
#[test]
fn a_scope_restores_the_value_of_the_thread_that_began_it() {
    static VALUE: Inherited<u32> = Inherited::new();
    thread_local!(static LEFT: RefCell<Option<Generator<()>>> = const { RefCell::new(None) });
    struct Sets(Arc<AtomicBool>);
    impl Drop for Sets {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let value = || VALUE.get().as_deref().copied();
    let leave = |sets: Option<Sets>| {
        // SAFETY: suspends outside of thread-locals.
        let mut generator = unsafe {
            Generator::new(move |yielder| {
                let _sets = sets;
                VALUE.scope(2, || yielder.suspend(()));
            })
        };
        generator.next();
        LEFT.set(Some(generator));
    };

    let runtime = with_workers(1);
    runtime.run(|| {
        VALUE.set(1);
        leave(None);
        assert_eq!(value(), Some(2));
        // On this one's stack, if it has not begun before the join.
        let end = move || {
            VALUE.set(3);
            let is_ended = LEFT.take().map(|mut generator| generator.next()).is_some();
            assert_eq!(value(), Some(3));
            is_ended
        };
        until("one ends it", || runtime::spawn(end).join().unwrap());
        assert_eq!(value(), Some(1));
    });

    let is_dropped = Arc::new(AtomicBool::new(false));
    let sets = Sets(Arc::clone(&is_dropped));
    runtime.run(move || leave(Some(sets)));
    drop(runtime);
    assert!(is_dropped.load(SeqCst));
}

#[test]
fn what_a_thread_inherits_is_dropped_by_the_last_that_has_it() {
    static VALUE: Inherited<Noted> = Inherited::new();
    let drops = Arc::new(AtomicU32::new(0));
    let runtime = with_workers(1);
    let held = {
        let drops = Arc::clone(&drops);
        runtime.run(move || {
            VALUE.set(Noted(0, drops));
            runtime::spawn(runtime::park)
        })
    };
    assert_eq!(drops.load(SeqCst), 0);
    held.thread().unpark();
    held.join().unwrap();
    assert_eq!(drops.load(SeqCst), 1);

    // One that is destroyed before it begins.
    let destroyed = {
        let drops = Arc::clone(&drops);
        runtime.run(move || {
            VALUE.set(Noted(0, drops));
            let thread = runtime::spawn(|| unreachable!());
            thread.thread().destroy();
            thread
        })
    };
    assert!(destroyed.join().unwrap_err().is::<Destroyed>());
    assert_eq!(drops.load(SeqCst), 2);

    // The destructor of a result that no handle takes, after the closure.
    struct Sets(Arc<AtomicU32>);
    impl Drop for Sets {
        fn drop(&mut self) {
            VALUE.set(Noted(0, Arc::clone(&self.0)));
            assert!(VALUE.get().is_none());
        }
    }
    let is_detached = Arc::new(AtomicBool::new(false));
    let (sets, until_detached) = (Sets(Arc::clone(&drops)), Arc::clone(&is_detached));
    drop(runtime.spawn(move || {
        while !until_detached.load(SeqCst) {
            runtime::sleep(Duration::from_millis(1));
        }
        sets
    }));
    is_detached.store(true, SeqCst);
    until("the value is dropped", || drops.load(SeqCst) == 3);
}

#[test]
fn with_no_kernel_thread_left_those_that_have_begun_take_turns() {
    let runtime = Options::new().workers(1).max_threads(2).start().unwrap();
    let finished = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let finished = Arc::clone(&finished);
            runtime.spawn(move || {
                for _ in 0..20 {
                    runtime::yield_now();
                }
                runtime::sleep(Duration::from_millis(5));
                finished.fetch_add(1, SeqCst);
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(finished.load(SeqCst), 6);
    assert_eq!(runtime.kernel_threads(), 2);
}

#[test]
fn those_that_have_begun_do_not_wait_behind_those_that_cannot_begin() {
    const ROUNDS: usize = 2_000;
    let runtime = Options::new().workers(1).max_threads(2).start().unwrap();
    let (begun, goes) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let spawn = |_| {
        let (begun, goes) = (Arc::clone(&begun), Arc::clone(&goes));
        runtime.spawn(move || {
            begun.fetch_add(1, SeqCst);
            while !goes.load(SeqCst) {
                runtime::sleep(Duration::from_millis(1));
            }
            let begin = Instant::now();
            for _ in 0..ROUNDS {
                runtime::yield_now();
                assert!(
                    begin.elapsed() < LIMIT,
                    "each turn took a walk past the others"
                );
            }
        })
    };
    let threads = [(); 2].map(spawn);
    until("both have begun", || begun.load(SeqCst) == 2);
    let others: Vec<_> = (0..20_000).map(|n| runtime.spawn(move || n)).collect();
    goes.store(true, SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    for (n, other) in others.into_iter().enumerate() {
        assert_eq!(other.join().unwrap(), n);
    }
    assert_eq!(runtime.kernel_threads(), 2);
}

#[test]
fn what_a_thread_waits_for_begins_at_once_however_many_cannot() {
    const THREADS: usize = 2_000;
    let options = Options::new().workers(1).max_threads(2);
    // With looks that are as rare as can be.
    let runtime = options.slice(Duration::from_secs(10)).start().unwrap();
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let other = runtime.spawn(move || {
        begins.store(true, SeqCst);
        runtime::park();
    });
    until("the other one has begun", || begun.load(SeqCst));
    let spawn = |number| {
        let builder = Builder::new().level((number % 3) as u8);
        builder.spawn(move || number).unwrap()
    };
    let is_soon = runtime.run(|| {
        let begin = Instant::now();
        let mut threads: Vec<_> = (0..THREADS).map(spawn).collect();
        while let Some(thread) = threads.pop()
            && begin.elapsed() < LIMIT
        {
            assert_eq!(thread.join().unwrap(), threads.len());
        }
        let others = Vec::from_iter((0..THREADS).map(spawn));
        for _ in 0..100 {
            if begin.elapsed() < LIMIT {
                runtime::scope(|scope| drop(scope.spawn(|| drop(spawn(0)))));
            }
        }
        drop(others);
        begin.elapsed() < LIMIT
    });
    other.thread().unpark();
    other.join().unwrap();
    assert!(is_soon, "they wait for the monitor's looks");
}

#[test]
fn a_worker_without_a_kernel_thread_continues_those_of_a_busy_one() {
    let options = Options::new().workers(2).max_threads(4).pinned(false);
    // Slices that do not end.
    let runtime = options.slice(Duration::from_secs(1_000)).start().unwrap();
    let (answers, answered) = mpsc::channel();
    let threads = [(); 3].map(|()| {
        let answers = answers.clone();
        runtime.spawn(move || {
            while answers.send(()).is_ok() {
                runtime::park();
            }
        })
    });
    (0..3).for_each(|_| answered.recv().unwrap());
    let is_over = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&is_over);
    let hog = runtime.spawn(move || {
        while !sees.load(SeqCst) {
            std::hint::spin_loop();
        }
    });
    let other = runtime.spawn(|| ());
    // The other worker has looked at it in vain.
    std::thread::sleep(Duration::from_millis(50));
    threads.iter().for_each(|thread| thread.thread().unpark());
    let are_there = (0..3).all(|_| answered.recv_timeout(LIMIT).is_ok());
    drop(answered);
    is_over.store(true, SeqCst);
    hog.join().unwrap();
    for thread in threads {
        thread.thread().unpark();
        thread.join().unwrap();
    }
    other.join().unwrap();
    assert!(are_there, "they wait for the closure that computes");
}

#[test]
fn work_that_is_divided_needs_no_kernel_thread_for_each_part() {
    fn by_joins(depth: u32) -> u32 {
        let Some(depth) = depth.checked_sub(1) else {
            return 1;
        };
        let parts = [(); 2].map(|()| runtime::spawn(move || by_joins(depth)));
        parts.map(|part| part.join().unwrap()).iter().sum()
    }
    fn by_scopes(depth: u32, leaves: &AtomicU32) {
        match depth.checked_sub(1) {
            Some(depth) => runtime::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(move || by_scopes(depth, leaves));
                }
            }),
            None => drop(leaves.fetch_add(1, SeqCst)),
        }
    }
    for workers in [1, 2] {
        let options = Options::new().workers(workers).max_threads(2 * workers);
        let runtime = options.start().unwrap();
        let joins = runtime.spawn(|| by_joins(10));
        let scopes = runtime.spawn(|| {
            let leaves = AtomicU32::new(0);
            by_scopes(10, &leaves);
            leaves.into_inner()
        });
        until("both have finished", || {
            joins.is_finished() && scopes.is_finished()
        });
        assert_eq!(
            (joins.join().unwrap(), scopes.join().unwrap()),
            (1024, 1024)
        );
    }
}

/// Threads that divide their work, and requests to each of them.
#[derive(Default)]
struct Tree {
    threads: Mutex<Vec<runtime::Thread>>,
    leaves: AtomicU32,
    drops: AtomicUsize,
}

/// Counts a node that has ended, by whatever way.
struct Node(Arc<Tree>);

impl Drop for Node {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, SeqCst);
    }
}

impl Tree {
    /// Divides by joins and by scopes in turn. Every eighth leaf panics.
    fn divide(self: &Arc<Tree>, depth: u32) {
        thread_local! {
            static DEPTHS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
        }
        DEPTHS.with_borrow_mut(|depths| depths.push(depth));
        let _node = Node(Arc::clone(self));
        self.threads.lock().unwrap().push(runtime::current());
        let Some(below) = depth.checked_sub(1) else {
            if self.leaves.fetch_add(1, SeqCst) % 8 == 7 {
                std::panic::resume_unwind(Box::new(depth));
            }
            return runtime::yield_now();
        };
        if depth.is_multiple_of(2) {
            let part = || {
                let tree = Arc::clone(self);
                runtime::spawn(move || tree.divide(below))
            };
            for part in [part(), part()] {
                let _ = part.join();
            }
        } else {
            let all = std::panic::AssertUnwindSafe(|| {
                runtime::scope(|scope| {
                    let _first = scope.spawn(|| self.divide(below));
                    let _second = scope.spawn(|| self.divide(below));
                });
            });
            // A leaf's panic is the scope's. One of a thread that is destroyed goes on.
            let outcome = std::panic::catch_unwind(all);
            if let Err(payload) = outcome
                && payload.is::<Destroyed>()
            {
                std::panic::resume_unwind(payload);
            }
        }
    }
}

#[test]
fn lent_stacks_come_back_under_any_requests() {
    const DEPTH: u32 = 8;
    for (workers, destroys) in [(1, false), (2, false), (2, true), (3, true)] {
        let options = Options::new().workers(workers).max_threads(2 * workers);
        let options = options.slice(Duration::from_millis(1));
        let runtime = options.start().unwrap();
        let tree = Arc::new(Tree::default());
        let root = Arc::clone(&tree);
        drop(runtime.spawn(move || root.divide(DEPTH)));
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 33) as usize % below
        };
        let begin = Instant::now();
        while runtime.threads() > 0 {
            assert!(begin.elapsed() < LIMIT, "never: all have finished");
            let threads = tree.threads.lock().unwrap();
            let some: Vec<_> = (0..threads.len().min(16))
                .map(|_| threads[random(threads.len())].clone())
                .collect();
            drop(threads);
            for thread in some {
                match random(16) {
                    0..4 => thread.suspend(),
                    4..7 => drop(thread.step()),
                    7..10 => thread.signal(|| ()),
                    10 if destroys && random(50) == 0 => thread.destroy(),
                    _ => thread.unpark(),
                }
            }
            // None of them for long: a scope waits for its threads.
            for thread in tree.threads.lock().unwrap().iter() {
                thread.resume();
            }
        }
        let leaves = tree.leaves.load(SeqCst);
        let nodes = tree.threads.lock().unwrap().len();
        assert_eq!(tree.drops.load(SeqCst), nodes);
        if !destroys {
            assert_eq!((leaves, nodes), (1 << DEPTH, (2 << DEPTH) - 1));
        }
        assert!(runtime.kernel_threads() <= 2 * workers);
    }
}

#[test]
fn a_drop_waits_for_threads_on_lent_stacks() {
    for _ in 0..20 {
        let runtime = Options::new().workers(1).max_threads(2).start().unwrap();
        let tree = Arc::new(Tree::default());
        let root = Arc::clone(&tree);
        drop(runtime.spawn(move || root.divide(5)));
        drop(runtime);
        assert_eq!(tree.leaves.load(SeqCst), 32);
        assert_eq!(tree.drops.load(SeqCst), 63);
    }
}

#[test]
fn a_lender_is_suspended_anywhere_as_soon_as_its_stack_is_its_own_again() {
    let runtime = Options::new().workers(1).max_threads(2).start().unwrap();
    let has_begun = Arc::new(AtomicBool::new(false));
    let (goes_on, is_over) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let count = Arc::new(AtomicUsize::new(0));
    // Without it, another kernel thread runs the child.
    let blocks = runtime.spawn(runtime::park);
    let (begun, goes) = (Arc::clone(&has_begun), Arc::clone(&goes_on));
    let (over, counts) = (Arc::clone(&is_over), Arc::clone(&count));
    let lender = runtime.spawn(move || {
        runtime::scope(|scope| {
            scope.spawn(|| {
                begun.store(true, SeqCst);
                hog(&goes);
            });
        });
        // No safepoint from here on.
        while !AtomicBool::load(&over, SeqCst) {
            counts.fetch_add(1, SeqCst);
        }
    });
    until("the child has begun", || has_begun.load(SeqCst));
    let thread = lender.thread();
    // SAFETY: it holds no lock.
    unsafe { thread.suspend_anywhere() };
    std::thread::sleep(Duration::from_millis(5));
    assert!(!thread.is_suspended(), "while its stack is lent");
    goes_on.store(true, SeqCst);
    until("it is suspended", || thread.is_suspended());
    is_over.store(true, SeqCst);
    thread.resume();
    lender.join().unwrap();
    blocks.thread().unpark();
    blocks.join().unwrap();
}

#[test]
fn a_thread_that_joins_itself_panics() {
    let runtime = with_workers(1);
    let (give, take) = mpsc::channel::<runtime::JoinHandle<()>>();
    let (send, receive) = mpsc::channel();
    let own = runtime.spawn(move || {
        let own = take.recv_timeout(LIMIT).unwrap();
        let joins = std::panic::AssertUnwindSafe(|| own.join());
        send.send(std::panic::catch_unwind(joins).is_err()).unwrap();
    });
    give.send(own).unwrap();
    assert_eq!(receive.recv_timeout(LIMIT), Ok(true));
}

#[test]
fn as_many_workers_as_are_allowed_begin() {
    // An emulator has not the memory for so many kernel threads.
    let workers = if is_emulated() {
        16
    } else {
        runtime::MAX_WORKERS
    };
    let options = Options::new().workers(workers);
    let begin = Instant::now();
    match options.stack_size(runtime::MIN_STACK_SIZE).start() {
        Ok(runtime) => assert_eq!(runtime.run(|| 1), 1),
        // A limit of the machine.
        Err(error) => assert!(matches!(error, Error::Thread(_)), "{error}"),
    }
    assert!(begin.elapsed() < LIMIT);
}

#[test]
fn a_hundred_threads_wait_at_once() {
    let runtime = with_workers(2);
    let begun = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..100)
        .map(|_| {
            let begun = Arc::clone(&begun);
            runtime.spawn(move || {
                begun.fetch_add(1, SeqCst);
                runtime::park();
            })
        })
        .collect();
    until("all wait", || begun.load(SeqCst) == 100);
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Sets its flag when it is dropped.
struct Notes(Arc<AtomicBool>);

impl Drop for Notes {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_destroyed_thread_unwinds_wherever_it_waits() {
    let runtime = with_workers(1);
    let waits: [fn(); 5] = [
        runtime::park,
        || runtime::sleep(LIMIT),
        || runtime::sleep(Duration::MAX),
        || drop(runtime::spawn(|| runtime::sleep(Duration::from_millis(200))).join()),
        || loop {
            runtime::checkpoint();
        },
    ];
    for wait in waits {
        let (is_dropped, has_begun) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (notes, begun) = (Notes(Arc::clone(&is_dropped)), Arc::clone(&has_begun));
        let thread = runtime.spawn(move || {
            let _notes = notes;
            begun.store(true, SeqCst);
            wait();
            runtime::checkpoint();
            unreachable!("it was destroyed");
        });
        until("it runs", || has_begun.load(SeqCst));
        thread.thread().destroy();
        assert!(thread.join().unwrap_err().is::<Destroyed>());
        assert!(is_dropped.load(SeqCst), "its destructors have run");
    }
}

#[test]
fn a_thread_that_is_destroyed_before_it_begins_never_runs() {
    let runtime = with_workers(1);
    let is_dropped = Arc::default();
    let notes = Notes(Arc::clone(&is_dropped));
    let outcome = runtime.run(move || {
        let thread = runtime::spawn(move || {
            drop(notes);
            unreachable!("it was destroyed")
        });
        thread.thread().destroy();
        thread.join()
    });
    let outcome: std::thread::Result<()> = outcome;
    assert!(outcome.unwrap_err().is::<Destroyed>());
    assert!(is_dropped.load(SeqCst));
}

#[test]
fn a_suspended_thread_makes_no_progress_until_it_is_resumed() {
    let runtime = with_workers(2);
    let count = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&count);
    let handle = runtime.spawn(move || {
        loop {
            counts.fetch_add(1, SeqCst);
            runtime::checkpoint();
        }
    });
    let thread = handle.thread();
    assert!(!thread.step(), "only a suspended thread steps");
    until("it counts", || count.load(SeqCst) > 0);
    thread.suspend();
    until("it is suspended", || thread.is_suspended());
    let before = count.load(SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(count.load(SeqCst), before);
    for steps in 1..=10 {
        assert!(thread.step());
        until("it is suspended again", || thread.is_suspended());
        assert_eq!(count.load(SeqCst), before + steps);
    }
    thread.resume();
    until("it counts again", || count.load(SeqCst) > before + 10);
    thread.destroy();
    assert!(handle.join().unwrap_err().is::<Destroyed>());
}

#[test]
fn a_thread_that_is_suspended_before_it_begins_does_not_begin() {
    let runtime = with_workers(1);
    let has_run = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&has_run);
    runtime.run(|| {
        let handle = runtime::spawn(move || runs.store(true, SeqCst));
        let thread = handle.thread();
        thread.suspend();
        while !thread.is_suspended() {
            runtime::yield_now();
        }
        assert!(!has_run.load(SeqCst));
        thread.resume();
        handle.join().unwrap();
    });
    assert!(has_run.load(SeqCst));
}

#[test]
fn a_thread_is_suspended_anywhere_and_goes_on_there() {
    let runtime = with_workers(2);
    let (count, is_over) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (counts, over) = (Arc::clone(&count), Arc::clone(&is_over));
    let handle = runtime.spawn(move || {
        while !over.load(SeqCst) {
            counts.fetch_add(1, SeqCst);
        }
    });
    until("it counts", || count.load(SeqCst) > 0);
    let thread = handle.thread();
    for _ in 0..20 {
        // SAFETY: it holds no lock.
        unsafe { thread.suspend_anywhere() };
        until("it is suspended", || thread.is_suspended());
        let before = count.load(SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(count.load(SeqCst), before);
        thread.resume();
        until("it counts again", || count.load(SeqCst) > before);
    }
    is_over.store(true, SeqCst);
    handle.join().unwrap();
}

#[test]
fn a_handler_that_suspends_a_thread_leaves_the_error_number() {
    static FINISHED: OnceLock<Thread> = OnceLock::new();
    extern "C" fn suspend(_signal: i32) {
        // SAFETY: the thread has finished.
        unsafe { FINISHED.get().unwrap().suspend_anywhere() };
    }
    let runtime = with_workers(1);
    let finished = runtime.spawn(|| ());
    FINISHED.set(finished.thread()).unwrap();
    finished.join().unwrap();
    // Its kernel thread exits.
    drop(runtime);
    // SAFETY: the handler calls what handlers may call; the number is this thread's.
    unsafe {
        libc::signal(libc::SIGWINCH, suspend as *const () as libc::sighandler_t);
        *libc::__errno_location() = 42;
        libc::raise(libc::SIGWINCH);
        assert_eq!(*libc::__errno_location(), 42);
    }
}

#[test]
fn a_signal_runs_in_its_thread() {
    let runtime = with_workers(1);
    let (send, receive) = mpsc::channel();
    let handle = Builder::new()
        .name("signalled")
        .spawn_on(&runtime, runtime::park)
        .unwrap();
    for number in 0..3 {
        let send = send.clone();
        handle.thread().signal(move || {
            let name = runtime::current().name().map(str::to_owned);
            send.send((number, name)).unwrap();
        });
        let expected = (number, Some("signalled".to_owned()));
        assert_eq!(receive.recv_timeout(LIMIT).unwrap(), expected);
    }
    assert!(!handle.is_finished(), "a signal does not end a park");
    handle.thread().unpark();
    handle.join().unwrap();
    let panics = runtime.spawn(runtime::park);
    panics.thread().signal(|| std::panic::panic_any(5));
    assert_eq!(panics.join().unwrap_err().downcast_ref(), Some(&5));
}

/// Its wait consumes the event that the interrupted one waits for, and its own one at once.
#[test]
fn a_procedure_that_waits_does_not_delay_the_wait_that_it_interrupts() {
    let ms = Duration::from_millis;
    let runtime = with_workers(2);
    for joins in [false, true] {
        let (send, receive) = mpsc::channel();
        let handle = runtime.spawn(move || {
            let child = runtime::spawn(move || runtime::sleep(ms(300)));
            // It begins elsewhere.
            runtime::sleep(ms(30));
            send.send(()).unwrap();
            match joins {
                true => child.join().unwrap(),
                false => runtime::sleep(ms(270)),
            }
        });
        receive.recv_timeout(LIMIT).unwrap();
        let (begins, begun) = mpsc::channel();
        handle.thread().signal(move || {
            let child = runtime::spawn(move || runtime::sleep(ms(150)));
            std::thread::sleep(ms(50));
            begins.send(()).unwrap();
            child.join().unwrap();
        });
        begun.recv_timeout(LIMIT).unwrap();
        std::thread::sleep(ms(20));
        handle.thread().signal(move || std::thread::sleep(ms(500)));
        until("the wait is over", || handle.is_finished());
        handle.join().unwrap();
    }
}

#[test]
fn a_scope_ends_in_another_thread_than_it_began_in() {
    thread_local! {
        static KEPT: RefCell<Option<Generator<u32>>> = const { RefCell::new(None) };
    }
    let scope = |in_the_middle: &dyn Fn()| {
        let borrowed = AtomicBool::new(false);
        let borrowed = &borrowed;
        runtime::scope(|scope| {
            let _ = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                borrowed.store(true, SeqCst);
            });
            in_the_middle();
        });
        assert!(borrowed.load(SeqCst));
    };
    let runtime = with_workers(1);
    let handle = runtime.spawn(move || {
        let begins = move || {
            let suspends = move |yielder: &Yielder<u32>| scope(&|| yielder.suspend(1));
            // SAFETY: a thread-local owns it, but its function has no reference to one.
            let mut generator = unsafe { Generator::new(suspends) };
            assert_eq!(generator.next(), Some(1));
            KEPT.set(Some(generator));
        };
        // Until the join has run it on this stack. Those elsewhere end with their kernel threads.
        let mut here = (0..1000).filter_map(|_| {
            runtime::yield_now();
            runtime::spawn(begins).join().unwrap();
            KEPT.take()
        });
        let generator = here.next().expect("no join has run the thread");
        assert_eq!(generator.count(), 0);
    });
    until("the scope has ended", || handle.is_finished());
    handle.join().unwrap();
}

/// Its thread-locals could have what the coroutines wait for, and it could not wake them.
#[test]
fn a_thread_that_is_joined_in_a_run_of_coroutines_has_a_stack_of_its_own() {
    let runtime = with_workers(1);
    let number = runtime.run(|| {
        let here = || std::thread::current().id();
        let is_here = |id| id == here();
        assert!(is_here(runtime::spawn(here).join().unwrap()), "the control");
        run(|| {
            let other = coroutine::spawn(|| 1);
            for _ in 0..100 {
                let begins = || run_with(coroutine::Builder::new(), || 2).unwrap();
                assert_eq!(runtime::spawn(begins).join().unwrap(), 2);
                let panics = runtime::spawn(coroutine::yield_now);
                assert!(panics.join().is_err());
                assert!(!is_here(runtime::spawn(here).join().unwrap()));
            }
            coroutine::yield_now();
            other.join().unwrap()
        })
    });
    assert_eq!(number, 1);
}

#[test]
fn a_thread_that_has_been_joined_is_finished() {
    let runtime = with_workers(2);
    for _ in 0..2000 {
        let handle = runtime.spawn(|| ());
        let thread = handle.thread();
        handle.join().unwrap();
        assert!(thread.is_finished());
    }
}

/// Says in whose name it is dropped, and panics if it is to.
struct Named(mpsc::Sender<Option<String>>, bool);

impl Drop for Named {
    fn drop(&mut self) {
        let name = runtime::current().name().map(str::to_owned);
        self.0.send(name).unwrap();
        assert!(!self.1, "to be reported by the join");
    }
}

/// A destructor that panics as its thread ends leaks neither what comes after it nor the result.
#[test]
fn a_panic_of_a_destructor_leaks_nothing() {
    static VALUE: Inherited<Panics> = Inherited::new();
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::panic_any(5);
            }
        }
    }
    let runtime = with_workers(1);
    let counted = Arc::new(());
    let (later, result) = (Arc::clone(&counted), Arc::clone(&counted));
    let of_procedure = runtime.spawn(move || {
        let panics = Panics;
        runtime::current().signal(move || drop(later));
        runtime::current().signal(move || drop(panics)); // the first to be dropped
        result
    });
    let result = Arc::clone(&counted);
    let of_value = runtime.spawn(move || {
        VALUE.set(Panics);
        result
    });
    let result = Arc::clone(&counted);
    let of_scope = runtime.spawn(move || VALUE.scope(Panics, || result));
    for thread in [of_procedure, of_value, of_scope] {
        assert!(thread.join().unwrap_err().is::<i32>());
    }
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn procedures_that_are_not_called_are_dropped_by_their_thread() {
    let runtime = with_workers(1);
    let (send, receive) = mpsc::channel();
    let run = |panics| {
        let named = Named(send.clone(), panics);
        let ends = move || runtime::current().signal(move || drop(named));
        Builder::new()
            .name("ends")
            .spawn_on(&runtime, ends)
            .unwrap()
    };
    for _ in 0..100 {
        // Its own reference is the last one.
        drop(run(false));
        let name = receive.recv_timeout(LIMIT).unwrap();
        assert_eq!(name.as_deref(), Some("ends"));
    }
    assert!(run(true).join().is_err());
    assert_eq!(runtime.run(|| 1), 1, "its worker goes on");

    let finished = runtime.spawn(|| ());
    let thread = finished.thread();
    finished.join().unwrap();
    let (send, receive) = mpsc::channel::<()>();
    thread.signal(move || drop(send));
    let refused = receive.recv_timeout(LIMIT);
    assert_eq!(refused, Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn a_result_that_is_dropped_may_wait_in_a_thread_that_is_to_be_destroyed() {
    struct Waits(mpsc::Sender<()>, mpsc::Receiver<()>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv_timeout(LIMIT).unwrap();
            runtime::yield_now();
        }
    }
    let runtime = with_workers(1);
    let (begin, begins) = mpsc::channel();
    let (is_dropped, dropped) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let result = Waits(is_dropped, goes);
    let handle = runtime.spawn(move || {
        begins.recv_timeout(LIMIT).unwrap();
        result
    });
    let thread = handle.thread();
    drop(handle);
    begin.send(()).unwrap();
    dropped.recv_timeout(LIMIT).unwrap();
    thread.destroy();
    go.send(()).unwrap();
}

#[test]
fn a_destructor_of_a_thread_local_joins_a_thread_of_another_runtime() {
    struct Joins(Option<runtime::JoinHandle<()>>, Arc<AtomicBool>);
    impl Drop for Joins {
        fn drop(&mut self) {
            self.0.take().unwrap().join().unwrap();
            self.1.store(true, SeqCst);
        }
    }
    thread_local! {
        static LATE: RefCell<Option<Joins>> = const { RefCell::new(None) };
    }
    let (first, second) = (with_workers(1), with_workers(1));
    let has_joined = Arc::default();
    let handle = second.spawn(|| runtime::sleep(Duration::from_millis(200)));
    let joins = Joins(Some(handle), Arc::clone(&has_joined));
    first.run(move || LATE.set(Some(joins)));
    drop(first);
    assert!(has_joined.load(SeqCst));
}

#[test]
fn a_join_is_a_safepoint_also_where_it_does_not_wait() {
    // Without preemption, each join runs the thread that it waits for.
    let runtime = Options::new().workers(1).slice(Duration::MAX);
    let runtime = runtime.start().unwrap();
    let handle = runtime.spawn(|| {
        loop {
            runtime::spawn(|| ()).join().unwrap();
        }
    });
    let thread = handle.thread();
    for _ in 0..10 {
        thread.suspend();
        until("it is suspended", || thread.is_suspended());
        thread.resume();
    }
    thread.destroy();
    until("it is destroyed", || handle.is_finished());
    let outcome: std::thread::Result<()> = handle.join();
    assert!(outcome.unwrap_err().is::<Destroyed>());
}

#[test]
fn a_thread_that_a_panic_joins_can_be_destroyed() {
    struct Joins(Option<runtime::JoinHandle<()>>);
    impl Drop for Joins {
        fn drop(&mut self) {
            let outcome = self.0.take().unwrap().join();
            assert!(outcome.unwrap_err().is::<Destroyed>());
        }
    }
    let runtime = with_workers(1);
    let (send, receive) = mpsc::channel();
    let handle = runtime.spawn(move || {
        let own = send.clone();
        let child = runtime::spawn(move || {
            own.send(runtime::current()).unwrap();
            loop {
                runtime::park();
            }
        });
        let _joins = Joins(Some(child));
        // Without a message: while one is written, another kernel thread takes the child.
        std::panic::resume_unwind(Box::new(4));
    });
    receive.recv_timeout(LIMIT).unwrap().destroy();
    until("both have finished", || handle.is_finished());
    assert_eq!(handle.join().unwrap_err().downcast_ref(), Some(&4));
}

#[test]
fn a_step_leads_past_a_park_whose_unpark_has_come() {
    let runtime = with_workers(1);
    let count = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&count);
    let handle = runtime.spawn(move || {
        loop {
            runtime::park();
            counts.fetch_add(1, SeqCst);
        }
    });
    let thread = handle.thread();
    thread.suspend();
    thread.unpark();
    // At most: it begins, the wait that is over, its checkpoint, the next park.
    for _ in 0..4 {
        until("it is suspended", || thread.is_suspended());
        assert!(thread.step());
    }
    until("it has counted", || count.load(SeqCst) == 1);
    thread.destroy();
    let outcome: std::thread::Result<()> = handle.join();
    assert!(outcome.unwrap_err().is::<Destroyed>());
}

#[test]
fn a_thread_is_suspended_anywhere_also_while_it_calls_the_runtime() {
    let runtime = with_workers(1);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let handle = runtime.spawn(move || {
        let own = runtime::current();
        while !over.load(SeqCst) {
            own.unpark();
        }
    });
    let thread = handle.thread();
    for _ in 0..200 {
        // SAFETY: it holds no lock.
        unsafe { thread.suspend_anywhere() };
        until("it is suspended", || thread.is_suspended());
        thread.resume();
    }
    is_over.store(true, SeqCst);
    handle.join().unwrap();
}

#[test]
fn a_slice_without_an_end_does_not_keep_a_worker_from_blocked_closures() {
    let runtime = Options::new().workers(1).slice(Duration::MAX);
    let runtime = runtime.start().unwrap();
    for _ in 0..20 {
        let (send, receive) = mpsc::channel();
        let blocked = runtime.spawn(move || receive.recv_timeout(LIMIT));
        let sends = runtime.spawn(move || send.send(7).unwrap());
        assert_eq!(blocked.join().unwrap(), Ok(7));
        sends.join().unwrap();
    }
}

/// Returns whether another processor is emulated, by the program that the variable names.
fn is_emulated() -> bool {
    std::env::var_os("ATOMSEQ_VERIFY_RUNNER").is_some()
}

/// Runs a test in a process of its own, which must succeed. Returns whether this is that process.
fn is_in_child(test: &str) -> bool {
    const CHILD: &str = "ATOMSEQ_THREADS_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    // Where another processor is emulated, its emulator runs this program.
    let runner = std::env::var("ATOMSEQ_VERIFY_RUNNER").unwrap_or_default();
    let mut words: Vec<_> = runner.split_whitespace().map(OsString::from).collect();
    words.push(std::env::current_exe().unwrap().into());
    let status = std::process::Command::new(&words[0])
        .args(&words[1..])
        .args(["--exact", test])
        .env(CHILD, "1")
        .status();
    assert!(status.unwrap().success());
    false
}

#[test]
fn a_closure_that_blocks_is_seen_without_a_free_descriptor() {
    if !is_in_child("a_closure_that_blocks_is_seen_without_a_free_descriptor") {
        return;
    }
    let runtime = with_workers(1);
    let limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: changes this child process alone.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    let (send, receive) = mpsc::channel();
    let blocked = runtime.spawn(move || receive.recv_timeout(LIMIT));
    let sends = runtime.spawn(move || send.send(7).unwrap());
    assert_eq!(blocked.join().unwrap(), Ok(7));
    sends.join().unwrap();
}

#[test]
fn random_requests_lose_no_thread() {
    const THREADS: usize = 300;
    let runtime = Options::new().workers(2).slice(Duration::from_millis(1));
    let runtime = runtime.start().unwrap();
    let signals = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..THREADS)
        .map(|number| {
            runtime.spawn(move || {
                for round in 0..30 {
                    match (number + round) % 4 {
                        0 => runtime::yield_now(),
                        1 => runtime::sleep(Duration::from_micros(200)),
                        2 => runtime::checkpoint(),
                        _ => drop(runtime::spawn(move || round).join()),
                    }
                }
            })
        })
        .collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 33) as usize % below
    };
    let mut is_destroyed = [false; THREADS];
    for _ in 0..20_000 {
        let number = random(THREADS);
        let thread = handles[number].thread();
        match random(20) {
            0..6 => thread.suspend(),
            6..14 => thread.resume(),
            14..17 => drop(thread.step()),
            17 | 18 => {
                let signals = Arc::clone(&signals);
                thread.signal(move || {
                    signals.fetch_add(1, SeqCst);
                });
            }
            _ if number % 10 == 0 => {
                is_destroyed[number] = true;
                thread.destroy();
            }
            _ => thread.unpark(),
        }
    }
    for (handle, is_destroyed) in handles.into_iter().zip(is_destroyed) {
        handle.thread().resume();
        match handle.join() {
            Ok(()) => {}
            Err(payload) => assert!(is_destroyed && payload.is::<Destroyed>()),
        }
    }
}

#[test]
fn a_drop_waits_or_detaches() {
    let has_run = Arc::new(AtomicBool::new(false));
    let runtime = with_workers(1);
    let runs = Arc::clone(&has_run);
    drop(runtime.spawn(move || {
        runtime::sleep(Duration::from_millis(30));
        runs.store(true, SeqCst);
    }));
    drop(runtime);
    assert!(has_run.load(SeqCst), "the drop has waited");

    let has_run = Arc::new(AtomicBool::new(false));
    let runtime = Options::new()
        .workers(1)
        .on_drop(OnDrop::Detach)
        .start()
        .unwrap();
    let (send, receive) = mpsc::channel();
    let runs = Arc::clone(&has_run);
    drop(runtime.spawn(move || {
        receive.recv_timeout(LIMIT).unwrap();
        runtime::spawn(move || runs.store(true, SeqCst))
            .join()
            .unwrap();
    }));
    drop(runtime);
    assert!(!has_run.load(SeqCst), "the drop has not waited");
    send.send(()).unwrap();
    until("it finishes by itself", || has_run.load(SeqCst));

    // A runtime whose last owner is a thread of its own.
    let runtime = with_workers(1);
    let (give, take) = mpsc::channel::<Runtime>();
    let handle = runtime.spawn(move || drop(take.recv_timeout(LIMIT).unwrap()));
    give.send(runtime).unwrap();
    handle.join().unwrap();
}

/// Returns how many kernel threads this process has of runtimes.
fn kernel_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter(|task| {
            let name = task.as_ref().unwrap().path().join("comm");
            std::fs::read_to_string(name).is_ok_and(|name| name.starts_with("refused"))
        })
        .count()
}

/// Both preempt in one process by default, and neither takes the other's signal.
#[test]
fn runs_and_runtimes_have_signals_of_their_own() {
    let runtime = with_workers(1);
    let run = coroutine::Builder::new().slice(Duration::from_millis(1));
    assert_eq!(run_with(run.clone(), || 1).unwrap(), 1);
    drop(with_workers(1));
    let refused = run_with(run.signal(libc::SIGURG), || 2);
    let refused = refused.unwrap_err();
    assert!(matches!(
        refused,
        coroutine::Error::SignalTaken(libc::SIGURG)
    ));
    assert!(refused.to_string().contains("Builder::signal"));
    let refused = Options::new().signal(coroutine::DEFAULT_SIGNAL).start();
    assert!(matches!(refused, Err(Error::SignalTaken(_))));
    // The worker's slices still end: there is one worker, and the other closure needs it.
    static ENDS: AtomicBool = AtomicBool::new(false);
    let hog = runtime.spawn(|| hog(&ENDS));
    runtime.spawn(|| ENDS.store(true, SeqCst)).join().unwrap();
    hog.join().unwrap();
}

/// Each of these signals is used first by both at once.
#[test]
fn of_a_run_and_a_runtime_that_choose_a_signal_at_once_one_is_refused() {
    if !is_in_child("of_a_run_and_a_runtime_that_choose_a_signal_at_once_one_is_refused") {
        return;
    }
    let run = coroutine::Builder::new().slice(Duration::from_millis(1));
    // What is done once takes longer than what is tested.
    run_with(run.clone(), || ()).unwrap();
    drop(with_workers(1));
    let signals = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGPROF,
        libc::SIGPOLL,
        libc::SIGPWR,
        libc::SIGSTKFLT,
        libc::SIGWINCH,
        libc::SIGXCPU,
        libc::SIGXFSZ,
    ];
    for (number, signal) in (0..).zip(signals) {
        let both = std::sync::Barrier::new(2);
        let options = Options::new().workers(1).signal(signal);
        let are_accepted = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                both.wait();
                run_with(run.clone().signal(signal), || ()).is_ok()
            });
            both.wait();
            // Later each time: it is not known how long the run takes until it looks.
            let begin = Instant::now();
            while begin.elapsed() < number * Duration::from_micros(10) {}
            (options.start().is_ok(), run.join().unwrap())
        });
        assert!(
            matches!(are_accepted, (true, false) | (false, true)),
            "{signal}"
        );
    }
}

#[test]
fn bad_input_is_an_error_and_leaves_nothing() {
    assert!(matches!(
        Options::new().workers(0).start(),
        Err(Error::NoWorkers)
    ));
    let few = Options::new().workers(2).max_threads(3).start();
    assert!(matches!(few, Err(Error::MaxThreads { max: 3, needs: 4 })));
    let many = Options::new().workers(runtime::MAX_WORKERS + 1).start();
    assert!(matches!(many, Err(Error::TooManyWorkers(_))));
    let many = Options::new().max_threads(1_000_000).start();
    assert!(matches!(many, Err(Error::MaxThreads { .. })));
    let short = Options::new().slice(Duration::from_micros(10)).start();
    assert!(matches!(short, Err(Error::SliceTooShort(_))));
    let small = Options::new().stack_size(100).start();
    assert!(matches!(small, Err(Error::StackTooSmall { size: 100, .. })));
    let fault = Options::new().signal(libc::SIGSEGV).start();
    assert!(matches!(fault, Err(Error::SignalReserved(libc::SIGSEGV))));
    // One that is sent while the queue of signals is full would be lost.
    let lost = Options::new().signal(libc::SIGRTMIN() + 1).start();
    assert!(matches!(lost, Err(Error::SignalReserved(_))));
    extern "C" fn handle(_signal: i32) {}
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGUSR2, handle as *const () as libc::sighandler_t) };
    let taken = Options::new().signal(libc::SIGUSR2).start();
    assert!(matches!(taken, Err(Error::SignalTaken(libc::SIGUSR2))));
    assert!(taken.unwrap_err().to_string().contains("Options::signal"));
    let runtime = with_workers(1);
    let level = Builder::new().level(8).spawn_on(&runtime, || ());
    assert!(matches!(level, Err(Error::Level(8))));
    let name = Options::new().name("zero\0byte").start();
    assert!(matches!(name, Err(Error::Name(_))));
    if is_emulated() {
        return;
    }
    // Stacks that no machine has the addresses for. An emulator would note each page.
    let options = Options::new()
        .name("refused")
        .workers(4)
        .stack_size(1 << 46);
    let refused = options.start();
    assert!(matches!(refused, Err(Error::Thread(_))), "{refused:?}");
    assert_eq!(kernel_threads(), 0);
}

#[test]
fn a_limit_of_threads_is_an_error_and_leaves_nothing() {
    if !is_in_child("a_limit_of_threads_is_an_error_and_leaves_nothing") {
        return;
    }
    let limit = libc::rlimit {
        rlim_cur: 5,
        rlim_max: 5,
    };
    // SAFETY: changes this child process alone. The limit is not root's.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setuid(65534), 0);
        }
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &limit), 0);
    }
    let refused = Options::new().name("refused").workers(4).start();
    assert!(matches!(refused, Err(Error::Thread(_))), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("RLIMIT_NPROC"));
    assert_eq!(kernel_threads(), 0);
}

#[test]
#[should_panic(expected = "Runtime::spawn")]
fn outside_of_a_runtime_there_is_nothing_to_park() {
    runtime::park();
}
