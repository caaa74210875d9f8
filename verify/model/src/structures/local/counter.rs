//! `Counter`: one word.

use atomseq::sequence::model::Memory;

use super::{AT, memory, program};
use crate::structure::{Answer, Call, Content, Structure, answer, plain};

/// A thread that adds 1, 5, or so much that the word wraps around, and drains.
pub struct Counter;

impl Structure for Counter {
    fn name(&self) -> &'static str {
        "local/counter"
    }

    fn cpus(&self) -> usize {
        1
    }

    fn bulk_bytes(&self) -> usize {
        8
    }

    /// Few sums can be reached, so histories may be long.
    fn longest_history(&self) -> usize {
        24
    }

    fn empty(&self) -> Memory {
        memory([0])
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let add = |amount| Call::new(program("counter", "add"), &[AT, amount]);
        vec![
            add(1),
            add(5),
            add(usize::MAX - 1),
            Call::new(program("counter", "drain"), &[AT]),
        ]
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        Ok(vec![vec![memory.load(AT)]])
    }

    fn meaning(&self, content: &mut Content, call: &Call, _cpu: usize) -> Answer {
        let value = &mut content[0][0];
        match (call.program.name, call.words.as_slice()) {
            ("add", &[_, amount]) => {
                *value = value.wrapping_add(amount);
                answer(plain(&[]))
            }
            ("drain", _) => answer(plain(&[std::mem::take(value)])),
            (other, _) => panic!("what {other} means is not written down"),
        }
    }
}
