//! `percpu-pool`: getting a block of 64 bytes and putting it back.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::percpu::{Pool, Source};

use super::{Experiment, Method};
use crate::bench::engine::{Case, Subject};
use crate::bench::peers::crossbeam::QueuedBlocks;
use crate::bench::peers::malloc::Malloc;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-pool",
    about: "getting a block of 64 bytes and putting it back",
    structure: "percpu::Pool",
    operation: "a get and a put on",
    cases: &[
        ("rseq", "percpu::Pool of boxes"),
        ("malloc", "the C library's malloc and free"),
        ("crossbeam", "idle blocks in a crossbeam_queue::ArrayQueue"),
    ],
    method: Method::Timed(cases),
};

/// How many idle blocks a pool may keep for each thread.
const IDLE: usize = 64;

fn cases(threads: usize) -> Vec<Case> {
    vec![
        Case::new("rseq", Borrowing::new(Pool::new(threads * IDLE, new_block))),
        Case::new("malloc", Borrowing::new(Malloc)),
        Case::new(
            "crossbeam",
            Borrowing::new(QueuedBlocks::new(threads * IDLE)),
        ),
    ]
}

fn new_block() -> Box<[u64; 8]> {
    Box::new([0; 8])
}

impl<S: Source<Box<[u64; 8]>> + Sync> Blocks for Pool<Box<[u64; 8]>, S> {
    type Block = Box<[u64; 8]>;

    #[inline(always)]
    fn get(&self) -> Self::Block {
        Self::get(self).expect("the source has no end")
    }

    #[inline(always)]
    fn put(&self, block: Self::Block) {
        Self::put(self, block);
    }
}

/// Where blocks come from and go to.
pub trait Blocks: Sync {
    /// A block of 64 bytes, owned.
    type Block: Block;

    /// Gets one.
    fn get(&self) -> Self::Block;

    /// Puts one back.
    fn put(&self, block: Self::Block);
}

/// A block of 64 bytes.
///
/// # Safety
///
/// `first_word` returns a pointer that is valid for writing a word, and then reading it, while the block is owned.
pub unsafe trait Block {
    /// Where the block starts.
    fn first_word(&mut self) -> *mut u64;
}

struct Borrowing<B> {
    blocks: B,
    /// How many blocks were written to by somebody else while they were owned.
    shared: AtomicU64,
}

impl<B: Blocks> Borrowing<B> {
    fn new(blocks: B) -> Self {
        Self {
            blocks,
            shared: AtomicU64::new(0),
        }
    }
}

impl<B: Blocks> Subject for Borrowing<B> {
    fn run(&self, thread: usize, operations: u64) {
        let mark = thread as u64;
        let mut shared = 0;
        for _ in 0..operations {
            let mut block = self.blocks.get();
            let word = block.first_word();
            // SAFETY: the block is owned here and starts at `word`, as `Block` promises.
            unsafe { word.write(mark) };
            black_box(word);
            // SAFETY: as above, and it was written just now.
            shared += u64::from(unsafe { word.read() } != mark);
            self.blocks.put(block);
        }
        self.shared.fetch_add(shared, Ordering::Relaxed);
    }

    fn check(&self, _operations: u64) -> Result<(), String> {
        match self.shared.load(Ordering::Relaxed) {
            0 => Ok(()),
            shared => Err(format!("{shared} blocks were given to two threads at once")),
        }
    }
}
