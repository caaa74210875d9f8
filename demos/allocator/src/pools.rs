//! A global allocator that keeps small blocks in per-CPU pools, and takes others from the system.
//!
//! ```text
//! up to 1024 bytes: Pool of the size class ──empty, full──> Shelf ──empty──> System
//! more, or aligned to more than 16:                                   System
//! ```
//!
//! The first allocation creates the pools. Allocations at the same time, from other threads or from
//! that creation itself, use the shelves directly. So no thread waits. All blocks of a size class
//! are alike, so a block may return by another way than it came.
//!
//! - *Threads*: there is no per-thread state, so thread exit costs nothing, and destructors of
//!   thread-local variables may allocate and free.
//! - *Signal handlers*: pools and shelves may be used in handlers. `System`, which serves empty
//!   shelves and large blocks, may not. So, as with other allocators, handlers must not allocate.
//! - *fork*: on Linux, atomseq opens its gates before a fork, and shelves have no lock. So the
//!   child may allocate. Elsewhere the child of a process with several threads should only call
//!   `exec`.
//! - Small blocks are never returned to the system.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use atomseq::percpu::{Counter, Error, Pool};

use super::shelves::{ALIGNMENT, Block, Shelf};

/// The environment variable that, set to `system`, passes all allocations to the system.
pub const SWITCH: &std::ffi::CStr = c"ATOMSEQ_DEMO_ALLOCATOR";

/// The block sizes. From 64 bytes on, at most a quarter of a block is unused.
const SIZES: [usize; 18] = [
    16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024,
];
const LARGEST: usize = SIZES[SIZES.len() - 1];

/// The class of a size, indexed by the size divided by 16, rounded up.
static CLASSES: [u8; LARGEST / ALIGNMENT + 1] = {
    let mut classes = [0; LARGEST / ALIGNMENT + 1];
    let (mut at, mut class) = (0, 0);
    while at < classes.len() {
        if at * ALIGNMENT > SIZES[class] {
            class += 1;
        }
        classes[at] = class as u8;
        at += 1;
    }
    classes
};

static SHELVES: [Shelf; SIZES.len()] = {
    let mut shelves = [const { Shelf::new(0) }; SIZES.len()];
    let mut class = 0;
    while class < SIZES.len() {
        shelves[class] = Shelf::new(SIZES[class]);
        class += 1;
    }
    shelves
};

struct Pools {
    classes: [Pool<Block, &'static Shelf>; SIZES.len()],
    small: Counter,
    large: Counter,
}

impl Pools {
    fn new() -> Result<Pools, Error> {
        let mut made = [const { None }; SIZES.len()];
        for (class, pool) in made.iter_mut().enumerate() {
            // About 32 KiB for each class and CPU.
            let capacity = (32 * 1024 / SIZES[class]).clamp(64, 512);
            *pool = Some(Pool::try_with_capacity_per_cpu(capacity, &SHELVES[class])?);
        }
        Ok(Pools {
            classes: made.map(|pool| pool.expect("each was made above")),
            small: Counter::try_new()?,
            large: Counter::try_new()?,
        })
    }
}

/// The allocator. All values share the same pools.
pub struct PoolAllocator;

static STATE: AtomicU32 = AtomicU32::new(UNDECIDED);
const UNDECIDED: u32 = 0;
/// The first allocation is creating the pools, or failed to.
const SHELVES_ONLY: u32 = 1;
const POOLS_MADE: u32 = 2;
const SYSTEM_ONLY: u32 = 3;

struct Made(UnsafeCell<MaybeUninit<Pools>>);
// SAFETY: written once, before the Release store after which other threads read it.
unsafe impl Sync for Made {}
static POOLS: Made = Made(UnsafeCell::new(MaybeUninit::uninit()));

/// What serves an allocation.
enum Server {
    Pools(&'static Pools),
    Shelves,
    System,
}

#[inline]
fn server() -> Server {
    // Acquire: pairs with the Release in `decide`.
    match STATE.load(Ordering::Acquire) {
        // SAFETY: initialised before the Release store, and never changed after it.
        POOLS_MADE => Server::Pools(unsafe { (*POOLS.0.get()).assume_init_ref() }),
        SHELVES_ONLY => Server::Shelves,
        SYSTEM_ONLY => Server::System,
        _ => decide(),
    }
}

#[cold]
fn decide() -> Server {
    // Every thread computes the same value, so all blocks of a process are of one kind.
    let next = if wants_system() {
        SYSTEM_ONLY
    } else {
        SHELVES_ONLY
    };
    // Relaxed: no data depends on it yet.
    let won = STATE.compare_exchange(UNDECIDED, next, Ordering::Relaxed, Ordering::Relaxed);
    if won.is_ok() && next == SHELVES_ONLY {
        if let Ok(pools) = Pools::new() {
            // SAFETY: only the thread that won writes, and no thread reads before the Release
            // store.
            unsafe { (*POOLS.0.get()).write(pools) };
            // Release: pairs with the Acquire in `server`.
            STATE.store(POOLS_MADE, Ordering::Release);
        }
    }
    server()
}

fn wants_system() -> bool {
    // SAFETY: looks up a name without allocating. The program does not change its environment
    // before its first allocation.
    unsafe {
        let value = libc::getenv(SWITCH.as_ptr());
        !value.is_null() && libc::strcmp(value, c"system".as_ptr()) == 0
    }
}

/// Returns the class that serves a layout, or `None` if the system does.
#[inline]
fn class(layout: Layout) -> Option<usize> {
    let small = layout.size() <= LARGEST && layout.align() <= ALIGNMENT;
    small.then(|| usize::from(CLASSES[layout.size().div_ceil(ALIGNMENT)]))
}

// SAFETY: blocks are distinct, as large as their class and aligned to 16. A layout always has the
// same class, and the server of a class never changes between the system and the others.
unsafe impl GlobalAlloc for PoolAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match (server(), class(layout)) {
            (Server::Pools(pools), Some(class)) => {
                pools.small.increment();
                pools.classes[class].get()
            }
            (Server::Shelves, Some(class)) => SHELVES[class].take_one(),
            (server, _) => {
                if let Server::Pools(pools) = server {
                    pools.large.increment();
                }
                // SAFETY: the caller promises a layout that is not empty.
                return unsafe { System.alloc(layout) };
            }
        };
        block.map_or(ptr::null_mut(), |block| block.into_memory().as_ptr())
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller promises memory from `alloc` with this layout, so from this class if
        // it has one.
        let block = || unsafe { Block::new(NonNull::new_unchecked(memory)) };
        match (server(), class(layout)) {
            (Server::Pools(pools), Some(class)) => pools.classes[class].put(block()),
            (Server::Shelves, Some(class)) => SHELVES[class].put_one(block()),
            // SAFETY: the caller promises memory from `alloc` with this layout, which the system
            // served.
            _ => unsafe { System.dealloc(memory, layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match (server(), class(layout)) {
            (Server::System, _) | (_, None) => {
                if let Server::Pools(pools) = server() {
                    pools.large.increment();
                }
                // SAFETY: the caller promises a layout that is not empty.
                unsafe { System.alloc_zeroed(layout) }
            }
            _ => {
                // SAFETY: the caller promises a layout that is not empty.
                let memory = unsafe { self.alloc(layout) };
                if !memory.is_null() {
                    // SAFETY: at least that many bytes were allocated above.
                    unsafe { memory.write_bytes(0, layout.size()) };
                }
                memory
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that does not overflow when rounded up to the
        // alignment.
        let larger = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (server(), class(layout), class(larger)) {
            // SAFETY: the caller promises memory with this layout. The system served it, and serves
            // the new size.
            (Server::System, ..) | (_, None, None) => unsafe {
                System.realloc(memory, layout, size)
            },
            (_, Some(before), Some(after)) if before == after => memory,
            _ => {
                // SAFETY: the new block is distinct from the old one, and both have room for the
                // smaller size.
                unsafe {
                    let moved = self.alloc(larger);
                    if !moved.is_null() {
                        moved.copy_from_nonoverlapping(memory, layout.size().min(size));
                        self.dealloc(memory, layout);
                    }
                    moved
                }
            }
        }
    }
}

/// The statistics of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Allocations up to 1024 bytes.
    pub small: u64,
    /// Allocations for which a pool took a batch from its shelf.
    pub from_shelves: u64,
    /// Allocations that the system served.
    pub large: u64,
    /// Bytes that the shelves took from the system.
    pub carved: u64,
}

/// Returns the statistics, or `None` without pools.
pub fn totals() -> Option<Totals> {
    let Server::Pools(pools) = server() else {
        return None;
    };
    Some(Totals {
        small: pools.small.sum(),
        from_shelves: SHELVES.iter().map(|shelf| shelf.visits() as u64).sum(),
        large: pools.large.sum(),
        carved: SHELVES.iter().map(|shelf| shelf.carved() as u64).sum(),
    })
}
