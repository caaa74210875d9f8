//! `flow-queue`, `flow-stack`, `flow-pool`: elements that half of the threads produce and the other
//! half consume, and blocks of 64 bytes that are got on one CPU and put back on another.
//!
//! What carries the blocks is the same queue in all cases, so a ratio is nearer to one than that of
//! the pools alone.

use std::collections::VecDeque;

use atomseq::nonblocking::{LinkedQueue, Queue, Stack};
use atomseq::{percpu, type_stable};
use crossbeam_queue::{ArrayQueue, SegQueue};

use super::pools::Descriptor;
use super::{Entry, Experiment, Method, Threads, cases};
use crate::bench::engine::Subject;
use crate::bench::peers::crossbeam::QueuedBlocks;
#[cfg(feature = "jemalloc")]
use crate::bench::peers::malloc::Jemalloc;
use crate::bench::peers::malloc::{Malloc, Mimalloc};
use crate::bench::peers::mutexed::{Limited, Mutexed};
use crate::bench::workloads::borrowing::{Block, Blocks, IDLE, new_block};
use crate::bench::workloads::flow::{Flow, Roles, Wait, Way};
use crate::bench::workloads::push_and_pop;

/// The cases of a bounded container: by how its threads wait and how many elements it has room for,
/// atomseq's, crossbeam's, and a `$locked` of the standard library behind a mutex.
macro_rules! bounded {
    ($own:ident, $locked:literal, $limited:ident, $($more:expr),*) => {
        bounded! { $own, $locked, $limited, [$($more),*]:
            "spin", Spin, 16, "16"; "spin", Spin, 1024, "1,024";
            "yield", Yield, 16, "16"; "yield", Yield, 1024, "1,024";
        }
    };
    ($own:ident, $locked:literal, $limited:ident, [$($more:expr),*]:
     $($verb:literal, $wait:ident, $room:literal, $written:literal;)*) => {
        &[$(
            bounded!("atomseq", concat!("nonblocking::", stringify!($own)), $written, $verb, $room,
                |threads| Flow::through(threads, Wait::$wait, $own::<u64>::with_capacity($room))),
            bounded!("crossbeam-array", "crossbeam_queue::ArrayQueue", $written, $verb, $room,
                |threads| Flow::through(threads, Wait::$wait, ArrayQueue::new($room))),
            bounded!("mutex", concat!("std::sync::Mutex<", $locked, ">"), $written, $verb, $room,
                |threads| Flow::through(threads, Wait::$wait, $limited($room))),
        )* $($more),*]
    };
    ($name:literal, $what:expr, $written:literal, $verb:literal, $room:literal, $make:expr) => {
        Entry {
            name: concat!($verb, "-", $room, ":", $name),
            about: concat!($what, " of ", $written, ", threads that wait ", $verb),
            make: Some($make),
        }
    };
}

/// A case of an unbounded container, whose threads yield.
macro_rules! unbounded {
    ($name:literal, $what:literal, $make:expr) => {
        Entry {
            name: concat!("yield-unbounded:", $name),
            about: concat!($what, ", threads that wait yield"),
            make: Some(|threads| Flow::through(threads, Wait::Yield, $make)),
        }
    };
}

/// The experiment.
pub const QUEUE: Experiment = Experiment {
    name: "flow-queue",
    about: "an element through a queue, from threads that push to threads that pop",
    cases: bounded!(
        Queue,
        "VecDeque",
        limited_queue,
        unbounded!(
            "atomseq",
            "nonblocking::LinkedQueue",
            LinkedQueue::<u64>::new()
        ),
        unbounded!(
            "crossbeam-seg",
            "crossbeam_queue::SegQueue",
            SegQueue::new()
        )
    ),
    peers: &["crossbeam-array", "crossbeam-seg", "mutex"],
    method: Method::Timed,
    threads: Threads::Flow,
    beside: None,
};

fn limited_queue(room: usize) -> Limited<VecDeque<u64>> {
    Limited::new(Mutexed::new(VecDeque::with_capacity(room)), room)
}

push_and_pop!(Conveyor for Queue<u64>: Self::push, Self::pop);
push_and_pop!(Conveyor for LinkedQueue<u64>:
    |it: &Self, element| it.push(element).map_err(|_| element), Self::pop);

/// The experiment.
pub const STACK: Experiment = Experiment {
    name: "flow-stack",
    about: "an element through a bounded stack, from threads that push to threads that pop",
    cases: bounded!(Stack, "Vec", limited_stack,),
    peers: &["crossbeam-array", "mutex"],
    method: Method::Timed,
    threads: Threads::Flow,
    beside: None,
};

fn limited_stack(room: usize) -> Limited<Vec<u64>> {
    Limited::new(Mutexed::new(Vec::with_capacity(room)), room)
}

push_and_pop!(Conveyor for Stack<u64>: Self::push, Self::pop);

/// The experiment.
pub const POOL: Experiment = Experiment {
    name: "flow-pool",
    about: "getting a block of 64 bytes on one CPU and putting it back on another",
    cases: cases! {
        "percpu-pool", "percpu::Pool of boxes",
            |threads| carried(threads, percpu::Pool::with_capacity_per_cpu(IDLE, new_block));
        "type-stable-pool", "type_stable::Pool",
            |threads| carried(threads, type_stable::Pool::<Descriptor>::new());
        "malloc", "the C library's malloc and free", |threads| carried(threads, Malloc);
        "mimalloc", "mimalloc's mi_malloc and mi_free", |threads| carried(threads, Mimalloc);
        #[cfg(feature = "jemalloc")]
        "jemalloc", "jemalloc's malloc and free", |threads| carried(threads, Jemalloc);
        "crossbeam", "idle blocks in a crossbeam_queue::ArrayQueue",
            |threads| carried(threads, QueuedBlocks::new(threads * IDLE));
    },
    peers: &["malloc", "mimalloc", "jemalloc", "crossbeam"],
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

/// Blocks that a queue carries from the threads that get them to those that put them back.
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
        for case in POOL.make(2, |_| true) {
            std::thread::scope(|scope| {
                let subject = &case.subject;
                scope.spawn(|| subject.run(0, 100 * GRAIN));
                subject.run(1, 100 * GRAIN);
            });
            assert_eq!(case.subject.check(200 * GRAIN), Ok(()), "{}", case.name);
        }
    }
}
