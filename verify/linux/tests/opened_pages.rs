//! Memory that a handler of `SIGSEGV` makes accessible on first use, like a garbage collector's
//! barrier or a snapshot. Slices, vectors and nodes passed to an operation may lie there, also on
//! its slow path, where every signal is blocked while a gate is held, so that a fault would end the
//! process.
#![cfg(atomseq_sections)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use atomseq::percpu::{Area, Link, List, Node, Pool, Ring, Stack};
use verify_support::cpus::pin;
use verify_support::processes::{
    Circumstances, in_fresh_process_under, killed_in_fresh_process_under,
};
use verify_support::signals::install_plainly;
use verify_support::this_test;

/// The size of the protected memory; whole pages, whatever the page size is.
const ROOM: usize = 1 << 16;

#[repr(align(65536))]
struct Arena(UnsafeCell<[u8; ROOM]>);

// SAFETY: it is given out to one allocation at a time.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ROOM]));

fn arena() -> *mut u8 {
    ARENA.0.get().cast()
}

thread_local! {
    /// Whether this thread allocates in the arena.
    static IN_ARENA: Cell<bool> = const { Cell::new(false) };
}

struct Arenas;

// SAFETY: passes requests on to the system's allocator, or gives out the arena, which is freed
// before the next time.
unsafe impl GlobalAlloc for Arenas {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IN_ARENA.replace(false) {
            assert!(layout.size() <= ROOM, "a larger arena");
            return arena();
        }
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if start != arena() {
            // SAFETY: the caller's promise, passed on.
            unsafe { System.dealloc(start, layout) }
        }
    }
}

#[global_allocator]
static ARENAS: Arenas = Arenas;

/// Makes a value whose only allocation is the arena.
fn in_arena<T>(make: impl FnOnce() -> T) -> T {
    IN_ARENA.set(true);
    let made = make();
    assert!(!IN_ARENA.get(), "it has allocated");
    made
}

fn protect(rights: c_int) {
    // SAFETY: the arena's own pages, whose contents stay.
    if unsafe { libc::mprotect(arena().cast(), ROOM, rights) } != 0 {
        std::process::abort();
    }
}

const OPEN: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// The number of faults that the handler has repaired.
static FAULTS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn open(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's record of a fault.
    let address = unsafe { (*info).si_addr() } as usize;
    if !(arena().addr()..arena().addr() + ROOM).contains(&address) {
        // SAFETY: the fault repeats, and ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    FAULTS.fetch_add(1, Relaxed);
    protect(OPEN);
}

fn open_on_faults() {
    install_plainly(libc::SIGSEGV, open, 0, &[]);
}

/// Runs an operation on the arena while it has only these rights, until the handler opens it.
/// Returns the number of faults as well.
fn closed<R>(rights: c_int, operation: impl FnOnce() -> R) -> (R, usize) {
    let before = FAULTS.load(Relaxed);
    protect(rights);
    let result = operation();
    protect(OPEN);
    (result, FAULTS.load(Relaxed) - before)
}

/// Pushes batches into a ring and pops them, from and to a slice and a vector.
fn check_ring<T: Copy + PartialEq + Debug>(make: impl Fn(u64) -> T) {
    const COUNT: usize = 40;
    // Every second batch wraps around the end of the buffer.
    let ring = Ring::with_capacity_per_cpu(64);
    let made: Vec<T> = (0..COUNT as u64).map(&make).collect();
    let mut outside = in_arena(|| Vec::with_capacity(COUNT));
    for _ in 0..4 {
        outside.extend(&made);
        let pushed = closed(libc::PROT_NONE, || ring.push_batch(&outside));
        assert_eq!(pushed, (COUNT, 1));
        outside.fill(make(99));
        let popped = closed(libc::PROT_NONE, || ring.pop_batch(&mut outside));
        assert_eq!(popped, (COUNT, 1));
        assert_eq!(outside, made);

        let pushed = closed(libc::PROT_NONE, || ring.append(&mut outside));
        assert_eq!(pushed, (COUNT, 1));
        assert!(outside.is_empty());
        let popped = closed(libc::PROT_NONE, || ring.pop_into(&mut outside));
        assert_eq!(popped, (COUNT, 1));
        assert_eq!(outside, made);
        outside.clear();
    }
}

#[derive(Default)]
struct Numbered {
    link: Link,
    number: u64,
}

// SAFETY: the offset of the link.
unsafe impl Node for Numbered {
    const LINK: usize = std::mem::offset_of!(Numbered, link);
}

type Take = fn(&List<Box<Numbered>>) -> Option<Box<Numbered>>;

/// A node is opened by its push; removing it only reads it.
fn check_list() {
    let list: List<Box<Numbered>> = List::new();
    let ways: [Take; 3] = [List::pop, List::steal, |list| list.drain().next()];
    for (number, take) in (0..).zip(ways) {
        let mut node = in_arena(Box::<Numbered>::default);
        node.number = number;
        let ((), faults) = closed(libc::PROT_NONE, || list.push(node));
        assert_eq!(faults, 1);
        let (taken, faults) = closed(libc::PROT_READ, || take(&list));
        assert_eq!(faults, 0);
        assert_eq!(taken.expect("the node").number, number);
    }
}

/// The memory behind a box is not touched.
fn check_boxes() {
    let stack = Stack::with_capacity_per_cpu(4);
    let pool = Pool::with_capacity_per_cpu(4, || Box::new([0u64; 8]));
    let boxed = in_arena(|| Box::new([7; 8]));
    let (boxed, faults) = closed(libc::PROT_NONE, || {
        stack.push(boxed).expect("room");
        pool.put(stack.pop().expect("what was pushed"));
        pool.get().expect("what was put")
    });
    assert_eq!((*boxed, faults), ([7; 8], 0));
}

/// 80 batches of five types, and three nodes, with sections and without.
#[test]
fn memory_that_operations_are_given_may_be_opened_by_a_handler() {
    for is_off in ["0", "1"] {
        let circumstances = Circumstances {
            environment: vec![("ATOMSEQ_DISABLE_RSEQ", is_off)],
            ..Circumstances::default()
        };
        in_fresh_process_under(this_test!(), circumstances, || {
            pin();
            open_on_faults();
            check_ring(|value| value);
            check_ring(|value| (value, !value));
            check_ring(|value| [value; 33]);
            check_ring(u128::from);
            check_ring(|value| [value as u8; 9]);
            check_list();
            check_boxes();
        });
    }
}

/// The control: memory that is touched while a gate is held.
#[test]
fn a_fault_under_a_gate_ends_the_process() {
    killed_in_fresh_process_under(
        this_test!(),
        Circumstances::captured(),
        libc::SIGSEGV,
        || {
            let area = Area::try_new(0).expect("an area");
            open_on_faults();
            let number = in_arena(|| Box::new(7));
            // Without a gate the handler opens it.
            assert_eq!(closed(libc::PROT_NONE, || *number), (7, 1));
            let held = area.close_gate(0);
            closed(libc::PROT_NONE, || std::hint::black_box(*number));
            drop(held);
        },
    );
}
