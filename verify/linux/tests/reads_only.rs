//! Operations that store nothing: a push refused by a full queue or stack, and a pop from an empty
//! one. The structure, its memory and the program's variables are made read-only around these
//! operations, so a store ends the process. An addition on the slow path of a per-CPU structure
//! stores only to its word, which lies elsewhere.
//!
//! A single thread, so no operation meets another one: a thread that finds a stack locked by a
//! stopped owner revokes it, and so stores.
#![cfg(atomseq_sections)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::{Queue, Stack};
use atomseq::percpu::Histogram;
use verify_support::proc;
use verify_support::processes::{
    Circumstances, in_fresh_process_under, killed_in_fresh_process_under,
};
use verify_support::this_test;

/// The size of the memory that is made read-only.
const ROOM: usize = 1 << 20;

/// Whole pages, whatever the page size is.
#[repr(align(65536))]
struct Arena(UnsafeCell<[u8; ROOM]>);

// SAFETY: parts of it are given out once each.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ROOM]));

thread_local! {
    /// Whether this thread allocates in the arena.
    static IN_ARENA: Cell<bool> = const { Cell::new(false) };
    /// How much of it is used, by the one thread that uses it.
    static USED: Cell<usize> = const { Cell::new(0) };
}

struct Arenas;

// SAFETY: passes requests on to the system's allocator, or gives out a part of the arena that has
// no other owner.
unsafe impl GlobalAlloc for Arenas {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !IN_ARENA.get() {
            // SAFETY: the caller's promise, passed on.
            return unsafe { System.alloc(layout) };
        }
        let start = USED.get().next_multiple_of(layout.align());
        USED.set(start + layout.size());
        assert!(USED.get() <= ROOM, "a larger arena");
        ARENA.0.get().cast::<u8>().wrapping_add(start)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if IN_ARENA.get() {
            // SAFETY: the caller's promise, passed on; parts are zeros when they are given out.
            return unsafe { self.alloc(layout) };
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        let arena = ARENA.0.get() as usize;
        if !(arena..arena + ROOM).contains(&start.addr()) {
            // SAFETY: the caller's promise, passed on.
            unsafe { System.dealloc(start, layout) }
        }
    }
}

#[global_allocator]
static ARENAS: Arenas = Arenas;

/// Makes a value whose memory lies in the arena, as does the value itself. It is never dropped.
fn in_arena<T>(make: impl FnOnce() -> T) -> &'static T {
    IN_ARENA.set(true);
    let made = Box::leak(Box::new(make()));
    IN_ARENA.set(false);
    made
}

/// Returns the pages of this program's variables, including the arena: the writable mappings of its
/// file, and the zeroed pages behind them.
fn variables() -> Vec<Range<usize>> {
    let program = std::env::current_exe().expect("a path");
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut last_end = 0;
    for mapping in proc::mappings(&proc::maps()) {
        let is_program = program.as_os_str() == mapping.name;
        let is_behind = mapping.name.is_empty() && mapping.range.start == last_end;
        if is_program || is_behind {
            last_end = mapping.range.end;
            if mapping.is_writable {
                ranges.push(mapping.range);
            }
        }
    }
    ranges
}

/// Makes an attempt while the arena and the program's variables are read-only. The process does
/// nothing else meanwhile.
fn without_stores<R>(attempt: impl FnOnce() -> R) -> R {
    let ranges = variables();
    let arena = ARENA.0.get() as usize;
    assert!(
        ranges.iter().any(|range| range.contains(&arena)),
        "{ranges:x?}"
    );
    let protect = |rights| {
        for range in &ranges {
            let (start, bytes) = (range.start as *mut libc::c_void, range.len());
            // SAFETY: pages of this program, whose only active thread performs what this test
            // checks.
            if unsafe { libc::mprotect(start, bytes, rights) } != 0 {
                std::process::abort();
            }
        }
    };
    protect(libc::PROT_READ);
    let outcome = attempt();
    protect(libc::PROT_READ | libc::PROT_WRITE);
    outcome
}

/// The capacity, and how often an operation is refused.
const CAPACITY: usize = 100;
const REFUSED: u64 = 1000;

/// Pops from an empty one, pushes to a full one, and pops from one that is empty again. The first
/// `noting` refusals of each kind may store: a thread that waits in vain notes it, and does not
/// wait again before the next change.
fn check(name: &str, noting: u64, push: impl Fn(u64) -> bool, pop: impl Fn() -> Option<u64>) {
    let empty = |times: u64| (0..times).all(|_| pop().is_none());
    let full = |times: u64| !(0..times).any(&push);
    // No operation waits before 1,024 changes.
    for _ in 0..11 {
        assert!((0..CAPACITY as u64).all(&push), "{name}");
        assert!((0..CAPACITY).all(|_| pop().is_some()), "{name}");
    }
    assert!(empty(noting), "{name}");
    assert!(without_stores(|| empty(REFUSED)), "{name}");
    assert!((0..CAPACITY as u64).all(&push), "{name}");
    assert!(full(noting), "{name}");
    assert!(without_stores(|| full(REFUSED)), "{name}");
    assert!((0..CAPACITY).all(|_| pop().is_some()), "{name}");
    assert!(empty(noting), "{name}");
    assert!(without_stores(|| empty(REFUSED)), "{name}");
}

fn check_queue(name: &str, noting: u64, make: impl FnOnce() -> Queue<u64>) {
    let queue = in_arena(make);
    check(
        name,
        noting,
        |value| queue.push(value).is_ok(),
        || queue.pop(),
    );
}

fn check_stack(name: &str, make: impl FnOnce() -> Stack<u64>) {
    let stack = in_arena(make);
    check(name, 1, |value| stack.push(value).is_ok(), || stack.pop());
}

/// 3,000 operations of each form.
#[test]
fn what_is_refused_stores_nothing() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        check_queue("a queue", 1, || Queue::with_capacity(CAPACITY));
        check_queue("a queue by k-CAS", 0, || Queue::by_kcas(CAPACITY));
        check_stack("a stack", || Stack::with_capacity(CAPACITY));
        check_stack("a stack by k-CAS", || {
            Stack::forced(CAPACITY, Mechanism::Kcas)
        });
    });
}

/// An atomic instruction that publishes the area again would store to the histogram itself, even
/// where it fails. The buckets lie in memory of their own.
#[test]
fn an_addition_on_the_slow_path_stores_only_to_its_word() {
    let is_off = Circumstances::environment(&[("ATOMSEQ_DISABLE_RSEQ", "1")]);
    in_fresh_process_under(this_test!(), is_off, || {
        let histogram = in_arena(|| Histogram::powers_of_two().with_sum());
        histogram.record(5);
        without_stores(|| (0..REFUSED).for_each(|value| histogram.record(value)));
        assert_eq!(histogram.snapshot().total(), REFUSED + 1);
    });
}

/// The control: a recording that maps the histogram's memory.
#[test]
fn a_store_to_a_histogram_is_noticed() {
    killed_in_fresh_process_under(
        this_test!(),
        Circumstances::captured(),
        libc::SIGSEGV,
        || {
            let histogram = in_arena(Histogram::powers_of_two);
            without_stores(|| histogram.record(5));
        },
    );
}

/// The control: a push that succeeds.
#[test]
fn a_store_to_a_queue_is_noticed() {
    killed_in_fresh_process_under(
        this_test!(),
        Circumstances::captured(),
        libc::SIGSEGV,
        || {
            let queue = in_arena(|| Queue::with_capacity(CAPACITY));
            without_stores(|| queue.push(1)).expect("room");
        },
    );
}

#[test]
fn a_store_to_a_stack_is_noticed() {
    killed_in_fresh_process_under(
        this_test!(),
        Circumstances::captured(),
        libc::SIGSEGV,
        || {
            let stack = in_arena(|| Stack::with_capacity(CAPACITY));
            without_stores(|| stack.push(1)).expect("room");
        },
    );
}

/// A count that an operation would keep beside its structure.
#[test]
fn a_store_to_a_variable_is_noticed() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    killed_in_fresh_process_under(
        this_test!(),
        Circumstances::captured(),
        libc::SIGSEGV,
        || {
            without_stores(|| COUNT.fetch_add(1, Relaxed));
        },
    );
}
