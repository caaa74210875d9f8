//! `percpu-ring`: elements in and out of a bounded ring, 32 in a row. A figure is the time of one
//! element in and out.

use atomseq::percpu::Ring;
use crossbeam_queue::ArrayQueue;

use super::{Experiment, Method, Threads, cases};
use crate::bench::workloads::relay::{BURST, Channel, Relaying, each_received, each_sent, room};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "percpu-ring",
    about: "an element in and out of a bounded ring, in bursts of 32",
    cases: cases! {
        "rseq", "percpu::Ring, a burst by push_batch and pop_batch",
            |threads| Relaying::boxed(threads, Ring::with_capacity_per_cpu(room(threads)));
        "rseq-single", "percpu::Ring, an element at a time",
            |threads| Relaying::boxed(threads, Single(Ring::with_capacity_per_cpu(room(threads))));
        "crossbeam", "crossbeam_queue::ArrayQueue, an element at a time",
            |threads| Relaying::boxed(threads, ArrayQueue::new(room(threads)));
    },
    peers: &["crossbeam"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

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
