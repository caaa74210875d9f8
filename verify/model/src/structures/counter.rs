//! `Counter`: word 0 of each slot is what that CPU has added.

use atomseq::sequence::model::Memory;

use super::{program, zeroed};
use crate::layout::word;
use crate::structure::{Answer, Call, Content, Structure, answer, plain};

/// Three CPUs that add 1, 5, or so much that the word wraps around.
pub struct Counter;

const CPUS: usize = 3;

impl Structure for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    /// A counter never comes back to where it was.
    fn longest_history(&self) -> usize {
        5
    }

    fn empty(&self) -> Memory {
        zeroed(CPUS, 1)
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        [1, 5, usize::MAX - 1]
            .map(|amount| Call::new(program("counter", "add"), &[amount]))
            .into()
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        Ok((0..CPUS)
            .map(|cpu| vec![memory.load(word(cpu, 0))])
            .collect())
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        content[cpu][0] = content[cpu][0].wrapping_add(call.words[0]);
        answer(plain(&[]))
    }
}
