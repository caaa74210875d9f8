//! `flow-pool`: blocks of 64 bytes that are got on one CPU and put back on another.
//!
//! What carries the blocks is the same queue in all cases, so a ratio is nearer to one than that of
//! the pools alone.

use atomseq::{percpu, type_stable};
use crossbeam_queue::ArrayQueue;

use super::memory::Descriptor;
use super::percpu_pool::{IDLE, new_block};
use super::{Block, Blocks, Experiment, Method, Threads, case};
use crate::bench::engine::Subject;
use crate::bench::flow::{Flow, Roles, Wait, Way};
use crate::bench::peers::crossbeam::QueuedBlocks;
use crate::bench::peers::malloc::{Malloc, Mimalloc};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "flow-pool",
    about: "getting a block of 64 bytes on one CPU and putting it back on another",
    cases: &[
        case("percpu-pool", "percpu::Pool of boxes", |threads| {
            carried(
                threads,
                percpu::Pool::with_capacity_per_cpu(IDLE, new_block),
            )
        }),
        case("type-stable-pool", "memory::Pool", |threads| {
            carried(threads, type_stable::Pool::<Descriptor>::new())
        }),
        case("malloc", "the C library's malloc and free", |threads| {
            carried(threads, Malloc)
        }),
        case("mimalloc", "mimalloc's mi_malloc and mi_free", |threads| {
            carried(threads, Mimalloc)
        }),
        case(
            "crossbeam",
            "idle blocks in a crossbeam_queue::ArrayQueue",
            |threads| carried(threads, QueuedBlocks::new(threads * IDLE)),
        ),
    ],
    peers: &["malloc", "crossbeam", "mimalloc"],
    method: Method::Timed,
    threads: Threads::Flow,
    beside: None,
};

/// How many blocks are on their way at most.
const CARRIED: usize = 256;

fn carried(threads: usize, blocks: impl Blocks + 'static) -> Box<dyn Subject> {
    let queue = ArrayQueue::new(CARRIED);
    let carried = Carried { blocks, queue };
    Flow::boxed(threads, Wait::Yield, Roles::Turns, carried)
}

/// Blocks that a queue carries from those who get them to those who put them back.
struct Carried<B: Blocks> {
    blocks: B,
    queue: ArrayQueue<B::Block>,
}

impl<B: Blocks> Way for Carried<B> {
    type Element = B::Block;

    #[inline(always)]
    fn make(&self, number: u64) -> B::Block {
        let mut block = self.blocks.get();
        block.write(number);
        block
    }

    #[inline(always)]
    fn send(&self, block: B::Block) -> Result<(), B::Block> {
        self.queue.push(block)
    }

    #[inline(always)]
    fn receive(&self) -> Option<B::Block> {
        self.queue.pop()
    }

    #[inline(always)]
    fn end(&self, block: B::Block) -> u64 {
        let number = block.read();
        self.blocks.put(block);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_block_arrives_as_it_was_sent() {
        for case in EXPERIMENT.make(2, |_| true) {
            std::thread::scope(|scope| {
                let subject = &case.subject;
                scope.spawn(|| subject.run(0, 100 * GRAIN));
                subject.run(1, 100 * GRAIN);
            });
            assert_eq!(case.subject.check(200 * GRAIN), Ok(()), "{}", case.name);
        }
    }
}
