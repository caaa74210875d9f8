//! Operations where a sandbox that was set up late refuses one of the system calls that they make:
//! none panics, and none hangs.
//!
//! The documentation names these calls.
#![cfg(atomseq_sections)]

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use atomseq::dcas::{Cell, Change, Domain, Mechanism};
use atomseq::mutex::{Condvar, Mutex, Semaphore};
use atomseq::nonblocking::{LinkedStack, List, OneVisitorList, Queue, RefList, Stack};
use atomseq::percpu;
use atomseq::type_stable::Pool;
use verify_support::processes::{Circumstances, in_fresh_process_under};
use verify_support::sandbox::{ANSWERED, Answer, Refusal, When, answer_traps, refuse};
use verify_support::sources::{library_source, library_sources, without_tests};
use verify_support::this_test;

/// Replaces the C library's function in all of this program: as without a vDSO, every reading of
/// the clock is a system call.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    // SAFETY: the caller's promise to the C library.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int }
}

/// The same for the query for the thread's CPU.
#[unsafe(no_mangle)]
extern "C" fn sched_getcpu() -> libc::c_int {
    let mut cpu = 0u32;
    // SAFETY: the kernel writes one word.
    match unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, 0, 0) } {
        0 => cpu as libc::c_int,
        _ => -1,
    }
}

/// The calls that operations may make at any time. Excluded are `futex` and `rt_sigprocmask`, which
/// must stay allowed, and `membarrier`, which must not fail late.
const CALLS: [(&str, libc::c_long); 10] = [
    ("getpid", libc::SYS_getpid),
    ("gettid", libc::SYS_gettid),
    ("tgkill", libc::SYS_tgkill),
    ("sched_yield", libc::SYS_sched_yield),
    ("mmap", libc::SYS_mmap),
    ("munmap", libc::SYS_munmap),
    ("madvise", libc::SYS_madvise),
    ("getcpu", libc::SYS_getcpu),
    ("clock_gettime", libc::SYS_clock_gettime),
    ("rseq", libc::SYS_rseq),
];

const THREADS: usize = 4;
const ROUNDS: u64 = if cfg!(debug_assertions) {
    3_000
} else {
    30_000
};

/// Structures shared by threads, by one mechanism.
struct Shared {
    domain: Domain<[Cell; 2]>,
    linked: LinkedStack<u64>,
    list: List<u64, u64>,
    counted: RefList<u64>,
    visited: OneVisitorList<u64>,
    stack: Stack<u64>,
    queue: Queue<u64>,
}

impl Shared {
    fn new(mechanism: Mechanism) -> Shared {
        Shared {
            domain: Domain::forced([Cell::new(0), Cell::new(0)], mechanism),
            linked: LinkedStack::forced(mechanism),
            list: List::forced(mechanism),
            counted: RefList::forced(mechanism),
            visited: OneVisitorList::forced(mechanism),
            stack: Stack::forced(8, mechanism),
            queue: match mechanism {
                Mechanism::Assisted => Queue::with_capacity(8),
                Mechanism::Kcas => Queue::by_kcas(8),
            },
        }
    }

    /// Each operation may find that there is no memory, or that another thread was first.
    fn use_all(&self, value: u64) {
        let [first, second] = self.domain.load_all(self.domain.each_ref());
        let _ = self.domain.compare_exchange_pair(
            Change::of(&self.domain[0], first, first + 1),
            Change::of(&self.domain[1], second, second + 1),
        );
        let _ = self.linked.push(value);
        self.linked.pop();
        let key = value % 8;
        let _ = self.list.try_insert(key, value);
        // Dropped while it is checked out, the entry goes back into the list.
        let _ = self.list.check_out(&key);
        let _ = self.list.remove(&key);
        let _ = self.counted.push_front(value);
        drop(self.counted.pop_front());
        let _ = self.visited.push_front(value);
        let _ = self.visited.pop_front();
        let _ = self.stack.push(value);
        self.stack.pop();
        let _ = self.queue.push(value);
        self.queue.pop();
    }
}

/// Operations that read the clock even without contention.
fn wait_and_measure(held: &Mutex<u32>, soon: Instant) {
    let short = Duration::from_micros(100);
    let (free, changed, permits) = (Mutex::<u32>::new(0), Condvar::new(), Semaphore::new(0));
    assert!(held.try_lock_for(short).is_none());
    assert!(held.try_lock_until(soon).is_none());
    assert!(permits.try_acquire_for(short).is_none());
    assert!(changed.wait_for(&mut free.lock(), short).timed_out());
    let options = Pool::<AtomicU64>::options().stable_for(Duration::from_millis(1));
    let Ok(pool) = options.try_build() else {
        return;
    };
    drop(pool.allocate());
    pool.trim();
    pool.audit(short, |_| ());
}

/// Returns how often a source reads one of `std`'s clocks, which panic where they are refused.
fn asks_std(text: &str) -> usize {
    let asks = |line: &&str| {
        let is_code = !line.trim_start().starts_with("//");
        let clocks = ["Instant::now", "SystemTime::now", ".elapsed()"];
        is_code && clocks.iter().any(|clock| line.contains(clock))
    };
    without_tests(text).lines().filter(asks).count()
}

/// Of the library's sources, one reads such a clock where the other clock has just been read, and
/// one where no such refusal exists.
#[test]
fn no_other_source_asks_a_clock_that_panics() {
    let mut asking: Vec<String> = library_sources()
        .into_iter()
        .filter(|(_, text)| asks_std(text) > 0)
        .map(|(name, _)| name)
        .collect();
    asking.sort();
    assert_eq!(asking, ["clock.rs", "mutex/deadline.rs"]);
    assert_eq!(asks_std(&library_source("mutex/deadline.rs")), 1);
}

#[test]
fn a_source_that_asks_is_noticed() {
    let source = "let now = Instant::now();\n/// Instant::now\nlet old = start.elapsed();\nlet then = time::SystemTime::now();";
    assert_eq!(asks_std(source), 3);
    let test = "fn f() {}\n#[cfg(test)]\nmod tests {\n    Instant::now();\n}";
    assert_eq!(asks_std(test), 0);
}

/// Returns whether a source maps memory without `mappings.rs`, which keeps mappings that the system
/// does not take back.
fn maps(text: &str) -> bool {
    let text = without_tests(text);
    ["platform::map(", "memory::map(", "platform::{map"]
        .iter()
        .any(|call| text.contains(call))
}

/// The other sources map once in a process: the page that distinguishes a child from its parent,
/// and the memory into which start-up reads files.
#[test]
fn all_that_is_mapped_repeatedly_can_be_reused() {
    let mut mapping: Vec<String> = library_sources()
        .into_iter()
        .filter(|(_, text)| maps(text))
        .map(|(name, _)| name)
        .collect();
    mapping.sort();
    assert_eq!(
        mapping,
        ["linux/cpus.rs", "linux/process.rs", "mappings.rs"]
    );
    assert!(maps("use crate::platform::{map, unmap};"));
    assert!(!maps("let index = mappings::map(bytes);"));
}

#[test]
fn a_refused_call_makes_nothing_panic() {
    for (name, number) in CALLS {
        let circumstances = Circumstances {
            environment: vec![("REFUSED", name)],
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            // The call that this process tests.
            let refused = std::env::var("REFUSED").expect("said by the parent");
            let (_, number) = CALLS
                .into_iter()
                .find(|(name, _)| *name == refused)
                .unwrap();
            check(number, Answer::Error(libc::EPERM));
        });
        match printed {
            None => return,
            Some(_) => println!("{name}, number {number}: nothing panics"),
        }
    }
}

/// The calls that the C library does not make itself where it ends a thread with signals blocked.
const TRAPPED: [&str; 6] = [
    "getpid",
    "gettid",
    "tgkill",
    "sched_yield",
    "getcpu",
    "clock_gettime",
];

/// The kernel ends a process that has blocked `SIGSYS` and makes such a call.
#[test]
fn a_trapped_call_is_made_with_no_signal_blocked() {
    for name in TRAPPED {
        let circumstances = Circumstances {
            environment: vec![("REFUSED", name)],
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            let trapped = std::env::var("REFUSED").expect("said by the parent");
            let find = |(name, _): &(&str, _)| *name == trapped;
            let (_, number) = CALLS.into_iter().find(find).unwrap();
            answer_traps();
            check(number, Answer::Trap);
            println!("{} answered", ANSWERED.load(Ordering::Relaxed));
        });
        match printed {
            None => return,
            Some(written) => println!("{name}: {}", written.output),
        }
    }
}

/// Without sections every operation closes the gate of the CPU on which its thread reports to be.
/// 10 rounds.
#[test]
fn a_trapped_getcpu_is_made_with_no_signal_blocked() {
    let circumstances = Circumstances {
        environment: vec![
            ("ATOMSEQ_DISABLE_RSEQ", "1"),
            ("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),
        ],
        ..Circumstances::default()
    };
    in_fresh_process_under(this_test!(), circumstances, || {
        assert!(!atomseq::status().is_active(), "{}", atomseq::status());
        let stack = percpu::Stack::<u64>::with_capacity_per_cpu(100);
        let queue = percpu::Queue::<u64>::new();
        let ring = percpu::Ring::<u64>::with_capacity_per_cpu(1000);
        let objects = percpu::Pool::with_capacity_per_cpu(8, || Box::new(5));
        answer_traps();
        let trap = Refusal {
            call: libc::SYS_getcpu,
            answer: Answer::Trap,
            when: When::Always,
        };
        refuse(&trap).expect("a filter");
        for value in 0..100 {
            stack.push(value).expect("room");
            queue.push(value).expect("memory");
            ring.push(value).expect("room");
            objects.put(objects.get().expect("the source gives one"));
            assert!(stack.pop().or_else(|| stack.steal()).is_some());
        }
        assert_eq!(queue.drain().count() + ring.drain().count(), 200);
        assert!(ANSWERED.load(Ordering::Relaxed) >= 400);
    });
}

/// The filter applies only to the threads of this function: the test harness reads the clock.
fn check(number: libc::c_long, answer: Answer) {
    assert!(atomseq::status().gates_active(), "{}", atomseq::status());
    for mechanism in [Mechanism::Assisted, Mechanism::Kcas] {
        let shared = Shared::new(mechanism);
        let held = Mutex::<u32>::new(0);
        let _held = held.lock();
        let soon = Instant::now() + Duration::from_millis(1);
        let ended = thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| {
                scope.spawn(|| {
                    let refusal = Refusal {
                        call: number,
                        answer,
                        when: When::Always,
                    };
                    refuse(&refusal).expect("a filter");
                    // The control: a reading of `std`'s clock panics here.
                    let panics = catch_unwind(Instant::now).is_err();
                    assert_eq!(panics, number == libc::SYS_clock_gettime);
                    (0..ROUNDS).for_each(|value| shared.use_all(value));
                    (0..10).for_each(|_| wait_and_measure(&held, soon));
                })
            });
            threads.map(|thread| thread.join().is_ok())
        });
        assert_eq!(ended, [true; THREADS], "{mechanism:?}");
    }
}
