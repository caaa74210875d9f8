//! The source of the pools: a shelf for each size class, with the free blocks that no pool has room
//! for.
//!
//! ```text
//! top ──> block ──next batch──> block ──> …        a block's first word leads to the next block of
//!           │ next block          │                its batch, the second word of a batch's first
//!           v                     v                block to the next batch
//!         block                 block
//! ```
//!
//! A shelf has no lock. A lock that the interrupted thread holds would block a signal handler, or a
//! forked child, indefinitely. A compare-and-swap puts a batch on top. To take a batch, a thread
//! takes all, keeps the first and puts the rest back. So no thread reads a batch that it does not
//! own; a compare-and-swap that takes just the top would have to, and has the ABA problem. Other
//! threads see meanwhile that all is taken. They spin for a while, then carve new blocks. A fork at
//! that time loses those blocks in the child, and nothing else.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use atomseq::AsWord;
use atomseq::percpu::{Batch, Source};

/// The alignment of blocks; each has room for two words.
pub const ALIGNMENT: usize = 16;

/// How often a thread checks again while another one has taken all.
const MAX_CHECKS: usize = 200;

/// A free block of memory, of the size of its class.
pub struct Block(NonNull<u8>);

impl Block {
    /// Wraps a free block.
    ///
    /// # Safety
    ///
    /// The memory was allocated from this class, and is not used any more.
    pub unsafe fn new(memory: NonNull<u8>) -> Block {
        Block(memory)
    }

    /// Returns the memory, which the caller owns.
    pub fn into_memory(self) -> NonNull<u8> {
        self.0
    }
}

// SAFETY: a free block is owned memory, which any thread may use.
unsafe impl Send for Block {}

// SAFETY: the word is that of the pointer.
unsafe impl AsWord for Block {
    #[inline]
    fn into_word(self) -> usize {
        self.0.into_word()
    }

    #[inline]
    unsafe fn from_word(word: usize) -> Block {
        // SAFETY: the caller promises a word from `into_word`.
        Block(unsafe { NonNull::from_word(word) })
    }
}

/// The links in a free block on a shelf.
#[repr(C)]
struct Free {
    next_block: *mut Free,
    next_batch: *mut Free,
}

/// The free blocks of a size class that are in no pool.
pub struct Shelf {
    bytes: usize,
    top: AtomicPtr<Free>,
    visits: AtomicUsize,
    carved: AtomicUsize,
}

/// The value of `top` while a thread has taken all.
fn all_taken() -> *mut Free {
    ptr::without_provenance_mut(1)
}

impl Shelf {
    /// Creates an empty shelf for blocks of `bytes` bytes, a multiple of [`ALIGNMENT`].
    pub const fn new(bytes: usize) -> Shelf {
        Shelf {
            bytes,
            top: AtomicPtr::new(ptr::null_mut()),
            visits: AtomicUsize::new(0),
            carved: AtomicUsize::new(0),
        }
    }

    /// Returns how often a pool asked for a batch.
    pub fn visits(&self) -> usize {
        // Relaxed, here and below: statistics, on which no other data depends.
        self.visits.load(Ordering::Relaxed)
    }

    /// Returns how many bytes were carved from the system.
    pub fn carved(&self) -> usize {
        self.carved.load(Ordering::Relaxed) * self.bytes
    }

    /// Takes one block, while there is no pool.
    pub fn take_one(&'static self) -> Option<Block> {
        let mut batch = Batch::new();
        self.refill(&mut batch);
        let block = batch.pop();
        self.spill(&mut batch);
        block
    }

    /// Puts one block back, while there is no pool.
    pub fn put_one(&'static self, block: Block) {
        let mut batch = Batch::new();
        // An empty batch has room.
        let _ = batch.push(block);
        self.spill(&mut batch);
    }

    /// Puts a batch on top.
    fn put(&self, batch: NonNull<Free>) {
        // Relaxed: the compare-and-swap orders the accesses.
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            let below = if top == all_taken() {
                ptr::null_mut()
            } else {
                top
            };
            // SAFETY: this thread owns the batch until the compare-and-swap.
            unsafe { (*batch.as_ptr()).next_batch = below };
            // Release: pairs with the Acquire in `take` and `put_back`, which publishes the links.
            match self.top.compare_exchange_weak(
                top,
                batch.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Takes the batch on top.
    fn take(&self) -> Option<NonNull<Free>> {
        for _ in 0..MAX_CHECKS {
            // Relaxed: the compare-and-swap orders the accesses.
            let top = self.top.load(Ordering::Relaxed);
            if top == all_taken() {
                std::hint::spin_loop();
                continue;
            }
            let batch = NonNull::new(top)?;
            // Acquire: pairs with the Release in `put` and `put_back`.
            let taken =
                self.top
                    .compare_exchange(top, all_taken(), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                // SAFETY: taken with everything below it, so this thread owns it.
                self.put_back(unsafe { (*top).next_batch });
                return Some(batch);
            }
        }
        None
    }

    /// Puts back the batches below the one that was taken.
    fn put_back(&self, mut rest: *mut Free) {
        let mut top = all_taken();
        loop {
            if top.is_null() || top == all_taken() {
                // Release: pairs with the Acquire in `take` and below.
                match self
                    .top
                    .compare_exchange(top, rest, Ordering::Release, Ordering::Relaxed)
                {
                    Ok(_) => return,
                    Err(now) => top = now,
                }
            } else {
                // Other threads have put batches there meanwhile. They go on top of the rest.
                if rest.is_null() {
                    return;
                }
                // Acquire: pairs with the Release in `put` and above.
                let newer = self.top.swap(all_taken(), Ordering::Acquire);
                top = all_taken();
                if newer.is_null() || newer == all_taken() {
                    continue;
                }
                let mut last = newer;
                // SAFETY: this thread owns the newer batches, and the rest.
                unsafe {
                    while !(*last).next_batch.is_null() {
                        last = (*last).next_batch;
                    }
                    (*last).next_batch = rest;
                }
                rest = newer;
            }
        }
    }

    /// Fills a batch with new blocks.
    fn carve(&self, batch: &mut Batch<Block>) {
        let bytes = self.bytes * Batch::<Block>::CAPACITY;
        let Ok(layout) = Layout::from_size_align(bytes, ALIGNMENT) else {
            return;
        };
        // SAFETY: the layout is not empty.
        let Some(memory) = NonNull::new(unsafe { System.alloc(layout) }) else {
            return;
        };
        self.carved
            .fetch_add(Batch::<Block>::CAPACITY, Ordering::Relaxed);
        for index in 0..Batch::<Block>::CAPACITY {
            // SAFETY: one block after the other within the allocation, which is never freed.
            let block = Block(unsafe { memory.add(index * self.bytes) });
            // The batch was empty, so it has room.
            let _ = batch.push(block);
        }
    }
}

impl Source<Block> for &'static Shelf {
    fn refill(&self, batch: &mut Batch<Block>) {
        self.visits.fetch_add(1, Ordering::Relaxed);
        let Some(first) = self.take() else {
            return self.carve(batch);
        };
        let mut next = Some(first);
        while let Some(block) = next {
            // SAFETY: this thread owns the batch, and `spill` wrote the links of its blocks.
            next = NonNull::new(unsafe { block.as_ref() }.next_block);
            // `spill` makes batches of at most the capacity, so there is room.
            let _ = batch.push(Block(block.cast()));
        }
    }

    fn spill(&self, batch: &mut Batch<Block>) {
        let mut first: *mut Free = ptr::null_mut();
        for block in batch {
            let free = block.into_memory().cast::<Free>();
            // SAFETY: a free block, aligned and large enough for two pointers.
            unsafe {
                free.write(Free {
                    next_block: first,
                    next_batch: ptr::null_mut(),
                });
            }
            first = free.as_ptr();
        }
        if let Some(first) = NonNull::new(first) {
            self.put(first);
        }
    }
}
