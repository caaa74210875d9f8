//! Nothing in `percpu` calls the global allocator, the C library's allocator or a lock of the standard
//! library once a structure is built, and so an allocator can be built on it: this test binary runs on
//! the example's.
//!
//! [`watch`] sees the calls. It knows the threads inside atomseq by their `pthread_t`, so it needs no
//! thread-local. A thread-local with a destructor shows as a call of the C library's `calloc`, where the
//! destructor is registered. What a run cannot show, an uncontended lock of the standard library, is
//! looked for in the sources.

#![cfg(unix)]

#[path = "../examples/allocator/pools.rs"]
mod pools;
#[path = "../examples/allocator/shelves.rs"]
mod shelves;
#[path = "allocator/sources.rs"]
mod sources;
#[path = "allocator/watch.rs"]
mod watch;

use std::process::{Command, Output};
use std::sync::Barrier;

use atomseq::percpu::{
    Batch, Counter, Histogram, Link, List, Node, Pool, Queue, RawNode, Ring, Source, Stack,
};
use watch::{Watched, watched};

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// In the environment of a child: which part it plays.
const PART: &str = "ATOMSEQ_TEST_PART";

fn plays(part: &str) -> bool {
    std::env::var_os(PART).is_some_and(|plays| plays == part)
}

/// Runs one test of this binary in a process of its own.
fn child(test: &str, part: &str, environment: &[(&str, &str)]) -> Output {
    let exe = std::env::current_exe().unwrap();
    Command::new(exe)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// Every way the operations can go: with the C library's registration, with atomseq's own, and all on
/// the slow path.
const SETTINGS: [(&str, &str); 3] = [
    ("ATOMSEQ_DISABLE_RSEQ", "0"),
    ("GLIBC_TUNABLES", "glibc.pthread.rseq=0"),
    ("ATOMSEQ_DISABLE_RSEQ", "1"),
];

#[derive(Default)]
struct Item {
    link: Link,
}

// SAFETY: the offset of the link.
unsafe impl Node for Item {
    const LINK: usize = std::mem::offset_of!(Item, link);
}

/// Gives numbers out without end.
struct Numbers;

impl Source<usize> for Numbers {
    fn refill(&self, batch: &mut Batch<usize>) {
        while batch.push(7).is_ok() {}
    }

    fn spill(&self, batch: &mut Batch<usize>) {
        batch.for_each(drop);
    }
}

struct Structures {
    counter: Counter,
    powers: Histogram,
    bounds: Histogram,
    stack: Stack<usize>,
    list: List<RawNode<Item>>,
    queue: Queue<usize>,
    ring: Ring<[u8; 24]>,
    pool: Pool<usize, Numbers>,
}

impl Structures {
    fn new() -> Structures {
        // Takes a copy of the bounds from the global allocator; nothing else does.
        let bounds = Histogram::with_bounds(&[1, 10, 100]);
        watched(|| Structures {
            counter: Counter::new(),
            powers: Histogram::powers_of_two(),
            bounds,
            stack: Stack::new(50),
            list: List::new(),
            queue: Queue::new(),
            ring: Ring::new(20),
            pool: Pool::new(8, Numbers),
        })
    }

    /// Every operation, on what the caller has brought along.
    fn use_all(&self, items: &mut [Item], room: &mut Vec<[u8; 24]>) {
        self.counter.add(3);
        self.counter.increment();
        std::hint::black_box((self.counter.sum(), self.counter.per_cpu().count()));
        self.counter.drain();
        for value in [0, 5, 5000] {
            self.powers.record(value);
            self.bounds.record(value);
        }
        for histogram in [&self.powers, &self.bounds] {
            let snapshot = histogram.snapshot();
            std::hint::black_box((snapshot.quantile(0.5), snapshot.total()));
            std::hint::black_box(snapshot.buckets().count());
            histogram.drain();
        }

        // More than fits, so that full and empty are met as well.
        for value in 0..60 {
            let _ = self.stack.push(value);
        }
        for cpu in 0..self.stack.cpus() {
            self.stack.steal_from(cpu);
        }
        std::hint::black_box((self.stack.steal(), self.stack.len()));
        for _ in 0..40 {
            self.stack.pop();
        }
        self.stack.drain().for_each(drop);

        for item in &mut *items {
            // SAFETY: the item is not used until all lists are empty again, below.
            self.list.push(unsafe { RawNode::new(item.into()) });
        }
        std::hint::black_box((self.list.pop().is_some(), self.list.steal().is_some()));

        // More than the first cells, so that the queue grows.
        for value in 0..3000 {
            let _ = self.queue.push(value);
        }
        std::hint::black_box((self.queue.pop(), self.queue.steal()));
        for cpu in 0..self.queue.cpus() {
            self.queue.steal_from(cpu);
        }
        self.queue.drain().for_each(drop);

        for _ in 0..25 {
            let _ = self.ring.push([1; 24]);
        }
        std::hint::black_box((self.ring.pop(), self.ring.steal(), self.ring.len()));
        self.ring.pop_batch(&mut [[0; 24]; 5]);
        self.ring.push_batch(&[[2; 24]; 30]);
        room.clear();
        self.ring.pop_into(room);
        self.ring.append(room);
        self.ring.drain().for_each(drop);

        let out: [Option<usize>; 40] = std::array::from_fn(|_| self.pool.get());
        out.into_iter()
            .flatten()
            .for_each(|object| self.pool.put(object));
        drop(self.pool.lease());
        std::hint::black_box((self.pool.cached(), self.pool.steal()));
        for cpu in 0..self.pool.cpus() {
            self.pool.steal_from(cpu);
        }
        self.pool.drain().for_each(drop);
    }

    fn empty_lists(&self) {
        self.list.drain().for_each(drop);
    }
}

fn use_structures() {
    let structures = Structures::new();
    const THREADS: usize = 4;
    let (used, emptied) = (Barrier::new(THREADS), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut items: Vec<Item> = (0..10).map(|_| Item::default()).collect();
                let mut room = Vec::with_capacity(100);
                for _ in 0..20 {
                    // The first time round, this is also this thread's first use of anything.
                    watched(|| structures.use_all(&mut items, &mut room));
                    used.wait();
                    watched(|| structures.empty_lists());
                    emptied.wait();
                }
            });
        }
    });
    watched(|| drop(structures.stack));
    watched(|| drop(structures.queue));
    watched(|| drop(structures.pool));
}

#[test]
fn no_operation_allocates() {
    if plays("use") {
        return use_structures();
    }
    for setting in SETTINGS {
        let output = child("no_operation_allocates", "use", &[setting]);
        assert!(output.status.success(), "{setting:?}: {output:?}");
    }
}

/// As above, for the very first call: in a process that has not started atomseq up. (The allocator's
/// pools would have; here everything goes to the system.)
#[test]
fn start_up_does_not_allocate() {
    if plays("start") {
        assert!(pools::totals().is_none());
        watch::watched_for_the_global_allocator(|| {
            atomseq::status();
        });
        return use_structures();
    }
    let system = (pools::SWITCH.to_str().unwrap(), "system");
    for setting in SETTINGS {
        let output = child("start_up_does_not_allocate", "start", &[setting, system]);
        assert!(output.status.success(), "{setting:?}: {output:?}");
    }
}

/// The negative controls: each of these must be seen.
#[test]
fn the_watch_sees_what_it_should() {
    let parts: Vec<(&str, fn())> = vec![
        ("alloc", || drop(std::hint::black_box(Box::new([1u8; 100])))),
        ("alloc_zeroed", || {
            drop(std::hint::black_box(vec![0u8; 100]))
        }),
        ("alloc_large", || {
            drop(std::hint::black_box(vec![1u8; 100_000]))
        }),
        ("source", || {
            // A source that allocates is the pool's user's business, and seen like all else.
            let pool = Pool::new(4, || Box::new(1));
            std::hint::black_box(pool.get());
        }),
        ("bounds", || {
            std::hint::black_box(Histogram::with_bounds(&[1]));
        }),
        #[cfg(all(target_os = "linux", target_env = "gnu", not(atomseq_portable)))]
        ("thread-local", set_up_a_thread_local),
    ];
    for (part, crime) in &parts {
        if plays(part) {
            return watched(crime);
        }
    }
    for (part, _) in parts {
        let output = child("the_watch_sees_what_it_should", part, &[]);
        let seen = String::from_utf8_lossy(&output.stderr).contains(watch::SEEN);
        assert!(!output.status.success() && seen, "{part}: {output:?}");
    }
}

/// Registers a destructor, for which the C library allocates.
#[cfg(all(target_os = "linux", target_env = "gnu", not(atomseq_portable)))]
fn set_up_a_thread_local() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            std::hint::black_box(());
        }
    }
    thread_local! {
        static LAZY: std::cell::Cell<Option<Loud>> = const { std::cell::Cell::new(None) };
    }
    LAZY.set(Some(Loud));
}

/// All kinds of allocation, from several threads, with blocks that move between them.
#[test]
fn the_allocator_allocates() {
    let before = pools::totals().expect("this binary runs on the pools");
    std::thread::scope(|scope| {
        let (give, take) = std::sync::mpsc::channel::<Vec<u8>>();
        scope.spawn(move || {
            for size in 0..3000usize {
                let mut bytes = vec![size as u8; size];
                bytes.reserve_exact(size % 7 * 100);
                bytes.push(1);
                bytes.shrink_to_fit();
                give.send(bytes).unwrap();
            }
        });
        scope.spawn(move || {
            for (size, bytes) in take.into_iter().enumerate() {
                assert_eq!(bytes.len(), size + 1);
                assert!(bytes[..size].iter().all(|byte| *byte == size as u8));
                let zeroes = vec![0u64; size];
                assert!(zeroes.iter().all(|word| *word == 0));
            }
        });
        for _ in 0..50 {
            scope.spawn(|| {
                thread_local! {
                    /// Allocates and frees while its thread ends.
                    static LAST: Last = const { Last };
                }
                struct Last;
                impl Drop for Last {
                    fn drop(&mut self) {
                        drop(std::hint::black_box(vec![vec![1u8; 40]; 10]));
                    }
                }
                LAST.with(|last| _ = std::hint::black_box(last));
                #[repr(align(64))]
                struct Aligned([u8; 64]);
                let aligned: Vec<Box<Aligned>> =
                    (0..100).map(|byte| Box::new(Aligned([byte; 64]))).collect();
                for (byte, aligned) in aligned.iter().enumerate() {
                    assert_eq!(&raw const **aligned as usize % 64, 0);
                    assert!(aligned.0.iter().all(|found| usize::from(*found) == byte));
                }
            });
        }
    });
    let after = pools::totals().unwrap();
    assert!(after.small > before.small + 3000);
    assert!(after.large >= before.large + 5000);
    let from_caches = (after.small - before.small) - (after.from_shelves - before.from_shelves);
    assert!(
        from_caches > after.from_shelves - before.from_shelves,
        "{after:?}"
    );
}

/// Without `linux/` a fork does not wait for closed gates, see `Quiet` there.
#[cfg(all(target_os = "linux", not(atomseq_portable)))]
#[test]
fn a_forked_child_allocates() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Relaxed: nothing follows from it.
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let blocks: Vec<Box<[u8; 48]>> = (0..2000).map(|_| Box::new([1; 48])).collect();
                    drop(std::hint::black_box(blocks));
                }
            });
        }
        for _ in 0..50 {
            // SAFETY: the child only allocates, which this allocator allows it, and leaves.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let blocks: Vec<Box<[u8; 48]>> = (0..5000).map(|_| Box::new([2; 48])).collect();
                let whole = blocks.iter().all(|block| **block == [2; 48]);
                // SAFETY: ends the child without what the parent still has to do.
                unsafe { libc::_exit(if whole { 0 } else { 1 }) };
            }
            assert_eq!(
                end_of(child),
                Some(0),
                "the child does not end, or ended badly"
            );
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The status of a child, which gets 20 seconds: it may wait for a thread that it does not have.
#[cfg(all(target_os = "linux", not(atomseq_portable)))]
fn end_of(child: libc::pid_t) -> Option<i32> {
    let mut status = -1;
    for _ in 0..20_000 {
        // SAFETY: asks about a child of this process.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // SAFETY: ends and reaps that child, which has not been reaped.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
    None
}
