//! `Counter`: one word in each slot, the first behind the gate; `Histogram` and `Counters`.

use atomseq::sequence::model::Memory;

use super::{program, zeroed};
use crate::layout::{bulk, word};
use crate::structure::{Answer, Call, Content, Structure, answer, plain};

/// A counter to which three CPUs add 1, 5, or enough to wrap the word around.
pub struct Counter;

const COUNTER_CPUS: usize = 3;

impl Structure for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn cpus(&self) -> usize {
        COUNTER_CPUS
    }

    /// A counter never returns to an earlier state.
    fn longest_history(&self) -> usize {
        5
    }

    fn empty(&self) -> Memory {
        zeroed(COUNTER_CPUS, 1)
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        [1, 5, usize::MAX - 1]
            .map(|amount| Call::new(program("counter", "add"), &[amount]))
            .into()
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        Ok((0..COUNTER_CPUS)
            .map(|cpu| vec![memory.load(word(cpu, 0))])
            .collect())
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        content[cpu][0] = content[cpu][0].wrapping_add(call.words[0]);
        answer(plain(&[]))
    }
}

// `Histogram`: behind each slot, that CPU's buckets.

/// A histogram on two CPUs with three buckets each.
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

    /// Counts only increase.
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

// `Counters`: behind each slot, that CPU's words.

/// Two counters on two CPUs, to which 1 is added, or enough to wrap the word around.
pub struct Counters;

const COUNTERS: usize = 2;

impl Structure for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn bulk_bytes(&self) -> usize {
        8 * COUNTERS
    }

    /// A counter never returns to an earlier state.
    fn longest_history(&self) -> usize {
        5
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        for cpu in 0..CPUS {
            for counter in 0..COUNTERS {
                memory.store(bulk(cpu) + 8 * counter, 0);
            }
        }
        memory
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let add = program("counters", "add");
        let amounts = [1, usize::MAX - 1].into_iter();
        amounts
            .flat_map(|amount| (0..COUNTERS).map(move |counter| [8 * counter, amount]))
            .map(|words| Call::new(add, &words))
            .collect()
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        (0..CPUS)
            .map(|cpu| {
                let words = (0..COUNTERS).map(|counter| memory.load(bulk(cpu) + 8 * counter));
                Ok(words.collect())
            })
            .collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let word = &mut content[cpu][call.words[0] / 8];
        *word = word.wrapping_add(call.words[1]);
        answer(plain(&[]))
    }
}
