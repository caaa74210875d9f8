//! `percpu-pool` and `memory`: getting a block of 64 bytes and putting it back; allocating a
//! descriptor of 64 bytes from type-stable memory and freeing it.

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use atomseq::percpu::{Pool, Source};
use atomseq::type_stable;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::crossbeam::QueuedBlocks;
#[cfg(feature = "jemalloc")]
use crate::bench::peers::malloc::Jemalloc;
use crate::bench::peers::malloc::{Malloc, Mimalloc};
use crate::bench::workloads::borrowing::{Block, Blocks, Borrowing, IDLE, new_block};

/// The experiment.
pub const POOL: Experiment = Experiment {
    name: "percpu-pool",
    about: "getting a block of 64 bytes and putting it back",
    cases: cases! {
        "rseq", "percpu::Pool of boxes",
            |threads| Box::new(Borrowing::new(boxes(threads)));
        "malloc", "the C library's malloc and free", |_| Box::new(Borrowing::new(Malloc));
        "mimalloc", "mimalloc's mi_malloc and mi_free", |_| Box::new(Borrowing::new(Mimalloc));
        #[cfg(feature = "jemalloc")]
        "jemalloc", "jemalloc's malloc and free", |_| Box::new(Borrowing::new(Jemalloc));
        "crossbeam", "idle blocks in a crossbeam_queue::ArrayQueue",
            |threads| Box::new(Borrowing::new(QueuedBlocks::new(threads * IDLE)));
    },
    peers: &["malloc", "mimalloc", "jemalloc", "crossbeam"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

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

/// The experiment.
pub const MEMORY: Experiment = Experiment {
    name: "memory",
    about: "allocating a descriptor of 64 bytes, and freeing it",
    cases: cases! {
        "rseq", "type_stable::Pool", |threads| Box::new(Borrowing::new(descriptors(threads)));
        "rseq-pool", "percpu::Pool of boxes, whose memory is not type-stable",
            |threads| Box::new(Borrowing::new(boxes(threads)));
        "malloc", "the C library's malloc and free", |_| Box::new(Borrowing::new(Malloc));
        "mimalloc", "mimalloc's mi_malloc and mi_free", |_| Box::new(Borrowing::new(Mimalloc));
        #[cfg(feature = "jemalloc")]
        "jemalloc", "jemalloc's malloc and free", |_| Box::new(Borrowing::new(Jemalloc));
    },
    peers: &["malloc", "mimalloc", "jemalloc"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

/// What is allocated.
pub type Descriptor = [AtomicU64; 8];

/// A pool of boxes whose CPUs keep as many idle ones as all threads have.
fn boxes(threads: usize) -> Pool<Box<[u64; 8]>, impl Source<Box<[u64; 8]>> + Sync> {
    Pool::with_capacity_per_cpu(threads * IDLE, new_block)
}

/// A pool whose CPUs keep as many free ones as the others' do.
fn descriptors(threads: usize) -> type_stable::Pool<Descriptor> {
    let options = type_stable::Pool::options().cached(threads * IDLE);
    options.try_build().expect("memory for a few stacks")
}

/// A descriptor that its holder owns.
pub struct Owned(NonNull<Descriptor>);

// SAFETY: descriptors are atomics, which all threads may share.
unsafe impl Send for Owned {}

impl Owned {
    #[inline(always)]
    fn words(&self) -> &Descriptor {
        // SAFETY: descriptors live as long as their pool, which the loop borrows.
        unsafe { self.0.as_ref() }
    }
}

impl Blocks for type_stable::Pool<Descriptor> {
    type Block = Owned;

    #[inline(always)]
    fn get(&self) -> Owned {
        let allocated = self.allocate().expect("the pool has no limit");
        Owned(allocated.into_raw().into())
    }

    #[inline(always)]
    fn put(&self, block: Owned) {
        // SAFETY: it came out of `into_raw` in `get` and is given up here; `Owned` is not Clone.
        drop(unsafe { self.adopt(block.0.as_ref()) });
    }
}

impl Block for Owned {
    #[inline(always)]
    fn keeps(&mut self, mark: u64) -> bool {
        let words = self.words();
        words[0].store(mark, Ordering::Relaxed);
        black_box(words)[0].load(Ordering::Relaxed) == mark
    }

    // Relaxed, both: what takes a block to another thread orders them.
    #[inline(always)]
    fn write(&mut self, mark: u64) {
        self.words()[0].store(mark, Ordering::Relaxed);
    }

    #[inline(always)]
    fn read(&self) -> u64 {
        self.words()[0].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::{GRAIN, Subject};

    #[test]
    fn descriptors_are_owned_by_one() {
        let borrowing = Borrowing::new(descriptors(1));
        borrowing.run(0, GRAIN);
        assert_eq!(borrowing.check(GRAIN), Ok(()));
    }
}
