//! `percpu-ring`: elements in and out of a bounded ring, 32 in a row. A figure is the time of one
//! element in and out.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use atomseq::percpu::Ring;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;

use super::{Experiment, Method, Threads, case};
use crate::bench::engine::{GRAIN, Subject};
use crate::bench::fault::Fault;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-ring",
    about: "an element in and out of a bounded ring, in bursts of 32",
    cases: &[
        case(
            "rseq",
            "percpu::Ring, a burst by push_batch and pop_batch",
            |threads| Relaying::boxed(threads, Ring::with_capacity_per_cpu(room(threads))),
        ),
        case(
            "rseq-single",
            "percpu::Ring, an element at a time",
            |threads| Relaying::boxed(threads, Single(Ring::with_capacity_per_cpu(room(threads)))),
        ),
        case(
            "crossbeam",
            "crossbeam_queue::ArrayQueue, an element at a time",
            |threads| Relaying::boxed(threads, ArrayQueue::new(room(threads))),
        ),
    ],
    peers: &["crossbeam"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

/// Room for all elements: any CPU may hold them, where threads cannot be pinned.
fn room(threads: usize) -> usize {
    threads * BURST
}

/// How many elements go in before as many come out.
pub const BURST: usize = 32;

/// Something that elements go through in order.
pub trait Channel: Sync {
    /// Puts a burst in; how many found room.
    fn send(&self, elements: &[u64; BURST]) -> usize;

    /// Takes elements out, as many as there are places or fewer; how many.
    fn receive(&self, elements: &mut [u64]) -> usize;

    /// Takes elements out of wherever there are some; for channels where `receive` looks in one
    /// place only.
    fn receive_anywhere(&self, elements: &mut [u64]) -> usize {
        self.receive(elements)
    }
}

impl Channel for Ring<u64> {
    #[inline(always)]
    fn send(&self, elements: &[u64; BURST]) -> usize {
        self.push_batch(elements)
    }

    #[inline(always)]
    fn receive(&self, elements: &mut [u64]) -> usize {
        self.pop_batch(elements)
    }

    fn receive_anywhere(&self, elements: &mut [u64]) -> usize {
        each_received(elements, || {
            (0..self.cpus()).find_map(|cpu| self.steal_from(cpu))
        })
    }
}

/// A ring used an element at a time.
struct Single(Ring<u64>);

impl Channel for Single {
    #[inline(always)]
    fn send(&self, elements: &[u64; BURST]) -> usize {
        each_sent(elements, |element| self.0.push(element).is_ok())
    }

    #[inline(always)]
    fn receive(&self, elements: &mut [u64]) -> usize {
        each_received(elements, || self.0.pop())
    }

    fn receive_anywhere(&self, elements: &mut [u64]) -> usize {
        self.0.receive_anywhere(elements)
    }
}

/// Sends one by one until there is no room; how many found some.
#[inline(always)]
pub fn each_sent(elements: &[u64; BURST], send: impl Fn(u64) -> bool) -> usize {
    elements
        .iter()
        .take_while(|&&element| send(element))
        .count()
}

/// Receives one by one until there is nothing left; how many.
#[inline(always)]
pub fn each_received(elements: &mut [u64], receive: impl Fn() -> Option<u64>) -> usize {
    let mut received = 0;
    for place in elements {
        let Some(element) = receive() else { break };
        *place = element;
        received += 1;
    }
    received
}

struct Relaying<C> {
    channel: C,
    held: Vec<CachePadded<Mutex<[u64; BURST]>>>,
}

impl<C: Channel + 'static> Relaying<C> {
    /// The subject for that many threads; the channel has room for a burst of each in every place.
    fn boxed(threads: usize, channel: C) -> Box<dyn Subject> {
        let held = |thread| std::array::from_fn(|index| (thread * BURST + index) as u64);
        let held = (0..threads)
            .map(|thread| CachePadded::new(Mutex::new(held(thread))))
            .collect();
        Box::new(Self { channel, held })
    }

    /// The rare case: a thread that could not be pinned was moved between its burst's two halves.
    #[cold]
    fn search(&self, elements: &mut [u64]) {
        let mut received = 0;
        while received < elements.len() {
            received += self.channel.receive_anywhere(&mut elements[received..]);
            std::thread::yield_now();
        }
    }
}

impl<C: Channel + 'static> Subject for Relaying<C> {
    fn run(&self, thread: usize, operations: u64) {
        const { assert!(GRAIN.is_multiple_of(BURST as u64)) };
        let mut held = self.held[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for _ in 0..operations / BURST as u64 {
            assert_eq!(
                self.channel.send(&held),
                BURST,
                "the channel was full although it has room for every element"
            );
            let received = self.channel.receive(&mut held[..]);
            if received < BURST {
                self.search(&mut held[received..]);
            }
            black_box(&mut held[..]);
        }
    }

    fn check(&self, _operations: u64) -> Result<(), Fault> {
        let mut all: Vec<u64> = self
            .held
            .iter()
            .flat_map(|held| *held.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let mut left = [0];
        while self.channel.receive_anywhere(&mut left) == 1 {
            all.push(left[0]);
        }
        all.sort_unstable();
        let elements = (self.held.len() * BURST) as u64;
        if all.iter().copied().eq(0..elements) {
            return Ok(());
        }
        all.dedup();
        let left = all.len() as u64;
        let sentence = format!("{elements} different elements went round, {left} are left");
        Err(Fault::count(elements, [left], sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts something else in the place of one element.
    struct Mistaken(ArrayQueue<u64>);

    impl Channel for Mistaken {
        fn send(&self, elements: &[u64; BURST]) -> usize {
            let mut elements = *elements;
            elements[3] = elements[4];
            self.0.send(&elements)
        }

        fn receive(&self, elements: &mut [u64]) -> usize {
            self.0.receive(elements)
        }
    }

    fn judge(channel: impl Channel + 'static) -> Result<(), String> {
        let case = Relaying::boxed(1, channel);
        case.run(0, GRAIN);
        case.check(GRAIN).map_err(|fault| fault.sentence)
    }

    #[test]
    fn the_check_tells_a_whole_channel_from_a_mistaken_one() {
        assert_eq!(judge(ArrayQueue::new(BURST)), Ok(()));
        let fault = judge(Mistaken(ArrayQueue::new(BURST))).unwrap_err();
        assert_eq!(fault, "32 different elements went round, 31 are left");
    }
}
