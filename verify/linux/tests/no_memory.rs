//! Constructors where memory is refused: those that return a `Result` return an error, the others
//! panic, and none ends the process. Each is called with its first request to the global allocator
//! refused, then with the second one, until none of its requests is refused; and with so little
//! address space left that the kernel maps nothing for it, then with more, until it succeeds.
#![cfg(atomseq_sections)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Debug;
use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;

use atomseq::dcas::{Mechanism, force_kcas};
use atomseq::nonblocking::{
    self, HashMap, LinkedQueue, LinkedStack, List, ListCache, Member, OneVisitorList, PageMap,
    PriorityQueue, RefList, Unordered, spsc,
};
use atomseq::percpu::{self, Link, Node};
use atomseq::signal;
use atomseq::type_stable;
use verify_support::proc;
use verify_support::processes::{
    Circumstances, exit_code, fork, in_fresh_process_under, killed_in_fresh_process_under,
    start_child,
};
use verify_support::this_test;

thread_local! {
    /// How many requests of this thread are granted before one is refused; none is refused at the
    /// largest number.
    static GRANTED: Cell<usize> = const { Cell::new(usize::MAX) };
}

struct Refusing;

/// Returns whether this request is the one to refuse.
fn is_refused() -> bool {
    let granted = GRANTED.get();
    GRANTED.set(match granted {
        0 | usize::MAX => usize::MAX,
        _ => granted - 1,
    });
    granted == 0
}

// SAFETY: passes requests on to the system's allocator, or returns null, as an allocator may.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match is_refused() {
            true => null_mut(),
            // SAFETY: the caller's promise, passed on.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match is_refused() {
            true => null_mut(),
            // SAFETY: the caller's promise, passed on.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        match is_refused() {
            true => null_mut(),
            // SAFETY: the caller's promise, passed on.
            false => unsafe { System.realloc(start, layout, bytes) },
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static REFUSING: Refusing = Refusing;

/// A name, the minimal number of its requests to the global allocator, and a call, which returns
/// `false` if there was no memory.
type Constructor = (&'static str, usize, fn() -> bool);

/// Returns whether construction succeeded. Panics on any error but the lack of memory.
fn is_made<T, E: Debug + PartialEq>(made: Result<T, E>, no_memory: E) -> bool {
    match made {
        Ok(made) => {
            drop(made);
            true
        }
        Err(error) => {
            assert_eq!(error, no_memory);
            false
        }
    }
}

/// The same for a per-CPU structure.
fn is_per_cpu_made<T>(made: Result<T, percpu::Error>) -> bool {
    is_made(made, percpu::Error::OutOfMemory)
}

/// The same for a structure in type-stable memory.
fn is_stable_made<T>(made: Result<T, type_stable::Error>) -> bool {
    is_made(made, type_stable::Error::OutOfMemory)
}

/// The same for a structure in an array.
fn is_array_made<T>(made: Result<T, nonblocking::Error>) -> bool {
    is_made(made, nonblocking::Error::OutOfMemory)
}

fn handler(_: &mut signal::Event<'_>) {}

/// A node of the intrusive list.
struct Linked {
    link: Link,
}

// SAFETY: the link's offset.
unsafe impl Node for Linked {
    const LINK: usize = std::mem::offset_of!(Linked, link);
}

/// The public constructors that return a `Result` with an error for the lack of memory.
const FALLIBLE: &[Constructor] = &[
    ("percpu::Area", 0, || {
        is_per_cpu_made(percpu::Area::try_new(100_000))
    }),
    ("percpu::Counter", 0, || {
        is_per_cpu_made(percpu::Counter::try_new())
    }),
    ("percpu::Histogram of powers", 0, || {
        is_per_cpu_made(percpu::Histogram::try_powers_of_two())
    }),
    ("percpu::Histogram of bounds", 0, || {
        is_per_cpu_made(percpu::Histogram::try_with_bounds(&[1, 5, 9]))
    }),
    ("percpu::Histogram of many buckets", 0, || {
        is_per_cpu_made(percpu::Histogram::try_log_linear(7, u64::MAX))
    }),
    ("percpu::Gauge", 0, || {
        is_per_cpu_made(percpu::Gauge::try_new())
    }),
    ("percpu::Counters", 0, || {
        let counters = percpu::Counters::new();
        is_per_cpu_made(counters.try_create().map(drop))
    }),
    ("percpu::Stack", 0, || {
        is_per_cpu_made(percpu::Stack::<u64>::try_with_capacity_per_cpu(10_000))
    }),
    ("percpu::Queue", 0, || {
        is_per_cpu_made(percpu::Queue::<u64>::try_new())
    }),
    ("percpu::Ring", 0, || {
        is_per_cpu_made(percpu::Ring::<u64>::try_with_capacity_per_cpu(10_000))
    }),
    ("percpu::List", 0, || {
        is_per_cpu_made(percpu::List::<Box<Linked>>::try_new())
    }),
    ("percpu::Pool", 0, || {
        is_per_cpu_made(percpu::Pool::try_with_capacity_per_cpu(10_000, || {
            Box::new(5)
        }))
    }),
    ("memory::Pool", 0, || {
        is_stable_made(type_stable::Pool::<AtomicU64>::options().try_build())
    }),
    ("memory::Pool with a limit", 0, || {
        is_stable_made(
            type_stable::Pool::<AtomicU64>::options()
                .limit(1000)
                .try_build(),
        )
    }),
    ("a descriptor", 0, || {
        let pool = type_stable::Pool::<AtomicU64>::options().try_build();
        pool.is_ok_and(|pool| is_stable_made(pool.allocate()))
    }),
    ("memory::Cache", 0, || {
        is_stable_made(type_stable::Cache::try_new(1000, |_: &AtomicU64| ()))
    }),
    ("nonblocking::Queue", 1, || {
        is_array_made(nonblocking::Queue::<u64>::try_with_capacity(100))
    }),
    ("nonblocking::Stack", 1, || {
        is_array_made(nonblocking::Stack::<u64>::try_with_capacity(100))
    }),
    ("nonblocking::spsc::Ring", 1, || {
        is_array_made(spsc::Ring::<u64>::try_with_capacity(100))
    }),
    ("nonblocking::List", 2, || {
        is_stable_made(List::<u64, u64>::try_with_limit(1000))
    }),
    ("nonblocking::List without order", 2, || {
        is_stable_made(List::<u64, u64, Unordered>::try_unordered_with_limit(1000))
    }),
    ("nonblocking::HashMap", 0, || {
        is_stable_made(HashMap::<u64, u64>::try_with_capacity_and_hasher(
            1000,
            std::hash::RandomState::new(),
        ))
    }),
    ("nonblocking::LinkedStack", 2, || {
        is_stable_made(LinkedStack::<u64>::try_with_limit(1000))
    }),
    ("nonblocking::LinkedQueue", 0, || {
        is_stable_made(LinkedQueue::<u64>::try_with_limit(1000))
    }),
    ("nonblocking::RefList", 2, || {
        is_stable_made(RefList::<u64>::try_with_limit(1000))
    }),
    ("nonblocking::OneVisitorList", 2, || {
        is_stable_made(OneVisitorList::<u64>::try_with_limit(1000))
    }),
    ("nonblocking::ListCache", 3, || {
        let owner = |_: &Member<AtomicU64, 2>| ();
        is_stable_made(ListCache::try_new(1000, [8, 1], owner))
    }),
    ("nonblocking::PriorityQueue", 3, || {
        is_stable_made(PriorityQueue::<u64, u64>::try_with_limit(1000))
    }),
    ("nonblocking::PageMap", 0, || {
        is_stable_made(PageMap::<u64>::try_with_limit(1000))
    }),
    ("nonblocking::PageMap of 48 bits", 0, || {
        is_stable_made(PageMap::<u64, 48>::try_wide_with_limit(1000))
    }),
    ("signal::install", 0, || {
        // SAFETY: the handler does nothing.
        let installed = unsafe { signal::install(libc::SIGUSR1, handler) };
        if installed.is_ok() {
            assert_eq!(signal::uninstall(libc::SIGUSR1), Ok(()));
        }
        let (signal, errno) = (libc::SIGUSR1, libc::ENOMEM);
        is_made(installed, signal::Error::Refused { signal, errno })
    }),
];

/// Returns whether `make` succeeds rather than panics for lack of memory.
fn panics_not<T>(make: fn() -> T) -> bool {
    match catch_unwind(make) {
        Ok(made) => {
            drop(made);
            true
        }
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or(payload.downcast_ref::<&str>().copied());
            assert!(text.is_some_and(|text| text.contains("memory")), "{text:?}");
            false
        }
    }
}

/// The constructors that return no `Result` and panic instead.
const INFALLIBLE: &[Constructor] = &[
    ("percpu::Stack::new", 0, || {
        panics_not(|| percpu::Stack::<u64>::with_capacity_per_cpu(10_000))
    }),
    ("memory::Pool::new", 0, || {
        panics_not(type_stable::Pool::<AtomicU64>::new)
    }),
    ("nonblocking::Queue::new", 1, || {
        panics_not(|| nonblocking::Queue::<u64>::with_capacity(100))
    }),
    ("nonblocking::Queue by k-CAS", 2, || {
        panics_not(|| nonblocking::Queue::<u64>::by_kcas(100))
    }),
    ("nonblocking::Stack::new", 1, || {
        panics_not(|| nonblocking::Stack::<u64>::with_capacity(100))
    }),
    ("nonblocking::Stack by k-CAS", 2, || {
        panics_not(|| nonblocking::Stack::<u64>::forced(100, Mechanism::Kcas))
    }),
    ("nonblocking::spsc::Ring::new", 1, || {
        panics_not(|| spsc::Ring::<u64>::with_capacity(100))
    }),
    ("nonblocking::List::new", 2, || {
        panics_not(List::<u64, u64>::new)
    }),
    ("nonblocking::List::unordered", 2, || {
        panics_not(List::<u64, u64, Unordered>::unordered)
    }),
    ("nonblocking::List::sibling", 3, || {
        panics_not(|| List::<u64, u64>::new().sibling())
    }),
    ("nonblocking::HashMap::new", 0, || {
        panics_not(HashMap::<u64, u64>::new)
    }),
    ("nonblocking::LinkedStack::new", 2, || {
        panics_not(LinkedStack::<u64>::new)
    }),
    ("nonblocking::LinkedQueue::new", 0, || {
        panics_not(LinkedQueue::<u64>::new)
    }),
    ("nonblocking::RefList::new", 2, || {
        panics_not(RefList::<u64>::new)
    }),
    ("nonblocking::OneVisitorList::new", 2, || {
        panics_not(OneVisitorList::<u64>::new)
    }),
    ("nonblocking::PriorityQueue::new", 3, || {
        panics_not(PriorityQueue::<u64, u64>::new)
    }),
    ("nonblocking::PageMap::new", 0, || {
        panics_not(PageMap::<u64>::new)
    }),
];

/// Calls a constructor with each of its requests refused in turn; returns the number of requests.
fn refuse_each(make: fn() -> bool) -> usize {
    for granted in 0.. {
        GRANTED.set(granted);
        let is_made = make();
        let was_refused = GRANTED.replace(usize::MAX) == usize::MAX;
        assert_eq!(is_made, !was_refused, "request {granted}");
        if is_made {
            return granted;
        }
    }
    unreachable!("there is no last number")
}

/// Calls each constructor once for each of its requests, and then without a refusal.
fn check_allocations() {
    for &(name, at_least, make) in FALLIBLE.iter().chain(INFALLIBLE) {
        println!("{name}");
        let requests = refuse_each(make);
        println!("    {requests} requests refused");
        assert!(requests >= at_least, "{name} makes {at_least} requests");
    }
}

#[test]
fn no_constructor_ends_the_process_where_an_allocation_is_refused() {
    for mechanism in ["chosen", "k-CAS"] {
        let circumstances = Circumstances {
            environment: vec![("MECHANISM", mechanism)],
            ..Circumstances::default()
        };
        let printed = in_fresh_process_under(this_test!(), circumstances, || {
            if std::env::var("MECHANISM").expect("said by the parent") == "k-CAS" {
                force_kcas().expect("there was no domain before");
            }
            check_allocations();
        });
        if printed.is_none() {
            return;
        }
    }
}

/// The control: requests by `Box`.
#[test]
fn a_constructor_that_ends_the_process_is_noticed() {
    killed_in_fresh_process_under(
        this_test!(),
        Circumstances::captured(),
        libc::SIGABRT,
        || {
            refuse_each(|| *std::hint::black_box(Box::new(true)));
        },
    );
}

/// Calls a constructor with little address space left, then repeatedly with twice as much; returns
/// how often it was refused.
fn refuse_addresses(make: fn() -> bool) -> usize {
    // Makes the C library keep the memory that panics need.
    drop(std::hint::black_box(Vec::<u8>::with_capacity(100_000)));
    for (refused, more) in (12..48).enumerate() {
        proc::limit_addresses(proc::pages_of_addresses() * proc::page() + (1 << more));
        let is_made = make();
        proc::limit_addresses(usize::MAX);
        if is_made {
            return refused;
        }
    }
    panic!("it is not made with all the memory that there is");
}

/// Up to 36 calls of each constructor, each constructor in a child of a process that has not used
/// atomseq: the first call starts it up.
#[test]
fn no_constructor_ends_the_process_where_a_mapping_is_refused() {
    in_fresh_process_under(this_test!(), Circumstances::default(), || {
        for &(name, _, make) in FALLIBLE.iter().chain(INFALLIBLE) {
            let child = start_child(fork, || refuse_addresses(make) as i32);
            let refused = exit_code(child);
            println!("{name}: refused {refused:?} times");
            assert!(refused.is_some_and(|refused| refused < 36), "{name}");
        }
    });
}
