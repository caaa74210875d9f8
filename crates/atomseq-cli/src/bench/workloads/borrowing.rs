//! The workload of pools: a thread gets a block of 64 bytes, writes to it and puts it back. No
//! block may be given to two threads at once.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bench::engine::Subject;
use crate::bench::fault::Fault;

/// How many idle blocks a pool may keep for each thread.
pub const IDLE: usize = 64;

/// A block, made by the global allocator.
pub fn new_block() -> Box<[u64; 8]> {
    Box::new([0; 8])
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
pub trait Block: Send {
    /// Writes a mark at the block's start, hides it from the optimiser, and returns whether it is
    /// still there. Every kind of block does the same, so that it costs them the same.
    fn keeps(&mut self, mark: u64) -> bool;

    /// Writes a mark at the block's start.
    fn write(&mut self, mark: u64);

    /// The mark at the block's start.
    fn read(&self) -> u64;
}

impl Block for Box<[u64; 8]> {
    #[inline(always)]
    fn keeps(&mut self, mark: u64) -> bool {
        let word = &mut self[0];
        *word = mark;
        *black_box(word) == mark
    }

    #[inline(always)]
    fn write(&mut self, mark: u64) {
        self[0] = mark;
    }

    #[inline(always)]
    fn read(&self) -> u64 {
        self[0]
    }
}

/// Gets blocks and puts them back.
pub struct Borrowing<B> {
    blocks: B,
    /// How many blocks another thread wrote to while they were owned.
    shared: AtomicU64,
}

impl<B: Blocks> Borrowing<B> {
    /// Of these.
    pub fn new(blocks: B) -> Self {
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
            shared += u64::from(!block.keeps(mark));
            self.blocks.put(block);
        }
        self.shared.fetch_add(shared, Ordering::Relaxed);
    }

    fn check(&self, _operations: u64) -> Result<(), Fault> {
        match self.shared.load(Ordering::Relaxed) {
            0 => Ok(()),
            shared => {
                let sentence = format!("{shared} blocks were given to two threads at once");
                Err(Fault::count(0, [shared], sentence))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;
    use crate::bench::peers::malloc::Malloc;
    use atomseq::percpu::Pool;

    /// Blocks of which every eighth has a second owner.
    #[derive(Default)]
    struct Careless(AtomicU64);

    struct Borrowed(bool);

    impl Block for Borrowed {
        fn keeps(&mut self, _mark: u64) -> bool {
            self.0
        }

        fn write(&mut self, _mark: u64) {}

        fn read(&self) -> u64 {
            0
        }
    }

    impl Blocks for Careless {
        type Block = Borrowed;

        fn get(&self) -> Borrowed {
            Borrowed(!self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(8))
        }

        fn put(&self, _block: Borrowed) {}
    }

    fn judge(blocks: impl Blocks) -> Result<(), String> {
        let borrowing = Borrowing::new(blocks);
        borrowing.run(0, GRAIN);
        borrowing.check(GRAIN).map_err(|fault| fault.sentence)
    }

    #[test]
    fn the_check_tells_owned_blocks_from_shared_ones() {
        assert_eq!(judge(Malloc), Ok(()));
        assert_eq!(judge(Pool::with_capacity_per_cpu(1, new_block)), Ok(()));
        let fault = judge(Careless::default()).unwrap_err();
        assert_eq!(fault, "8 blocks were given to two threads at once");
    }
}
