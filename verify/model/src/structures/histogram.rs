//! `Histogram`: behind each slot, that CPU's buckets.

use atomseq::sequence::model::Memory;

use super::program;
use crate::layout::bulk;
use crate::structure::{Answer, Call, Content, Structure, answer, plain};

/// Two CPUs with three buckets each.
pub struct Histogram;

const CPUS: usize = 2;
const BUCKETS: usize = 3;

impl Structure for Histogram {
    fn name(&self) -> &'static str {
        "histogram"
    }

    fn bulk_bytes(&self) -> usize {
        8 * BUCKETS
    }

    /// Counts only rise.
    fn longest_history(&self) -> usize {
        5
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        for cpu in 0..CPUS {
            for bucket in 0..BUCKETS {
                memory.store(bulk(cpu) + 8 * bucket, 0);
            }
        }
        memory
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let record = program("histogram", "record");
        (0..BUCKETS)
            .map(|bucket| Call::new(record, &[8 * bucket]))
            .collect()
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        (0..CPUS)
            .map(|cpu| {
                let counts = (0..BUCKETS).map(|bucket| memory.load(bulk(cpu) + 8 * bucket));
                Ok(counts.collect())
            })
            .collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        content[cpu][call.words[0] / 8] += 1;
        answer(plain(&[]))
    }
}
