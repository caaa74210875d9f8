//! The workload of rings: a thread puts a burst of elements in and takes as many out. In the end
//! every element must be there once.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;

use crate::bench::engine::{GRAIN, Subject};
use crate::bench::fault::Fault;

/// Room for all elements: any CPU may hold them, where threads cannot be pinned.
pub fn room(threads: usize) -> usize {
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

/// A channel under this workload.
pub struct Relaying<C> {
    channel: C,
    held: Vec<CachePadded<Mutex<[u64; BURST]>>>,
}

impl<C: Channel + 'static> Relaying<C> {
    /// The subject for that many threads; the channel has room for a burst of each in every place.
    pub fn boxed(threads: usize, channel: C) -> Box<dyn Subject> {
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
    use crossbeam_queue::ArrayQueue;

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
