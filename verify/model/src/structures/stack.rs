//! `Stack`: in each slot, how many bytes were ever pushed and popped; the difference of the array
//! behind the slot is full. `Pool` is made of the same sequences.

use atomseq::sequence::model::Memory;

use super::program;
use crate::layout::{CALLERS, bulk, word};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

/// Where the counts start: they wrap around within the history.
const START: usize = 0usize.wrapping_sub(16);

/// A batch of the caller's to push, its first word at `CALLERS`.
const BATCH: [usize; 3] = [1, 2, 1];
/// Where the caller wants words that it pops.
const BUFFER: usize = CALLERS + 0x100;

/// 1 and 2 are pushed, alone or in batches.
pub struct Stack {
    /// How many CPUs.
    pub cpus: usize,
    /// For how many words each has room.
    pub capacity: usize,
    /// How many calls in a row.
    pub history: usize,
}

impl Structure for Stack {
    fn name(&self) -> &'static str {
        "stack"
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn bulk_bytes(&self) -> usize {
        8 * self.capacity
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        for cpu in 0..self.cpus {
            memory.store(word(cpu, 0), START);
            memory.store(word(cpu, 1), START);
            for index in 0..self.capacity {
                memory.store(bulk(cpu) + 8 * index, 0);
            }
        }
        for (index, value) in BATCH.into_iter().enumerate() {
            memory.store(CALLERS + 8 * index, value);
        }
        memory
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let [push, pop, push_batch, pop_batch] =
            ["push", "pop", "push_batch", "pop_batch"].map(|name| program("stack", name));
        let bytes = 8 * self.capacity;
        let mut calls = vec![
            Call::new(push, &[bytes, 1]),
            Call::new(push, &[bytes, 2]),
            Call::new(pop, &[]),
        ];
        let counts: &[usize] = if self.cpus == 1 { &[0, 2, 3] } else { &[2] };
        for &count in counts {
            calls.push(Call::new(push_batch, &[bytes, CALLERS, count]));
            let fills = BUFFER..BUFFER + 8 * count;
            calls.push(Call::new(pop_batch, &[BUFFER, count]).filling(fills));
        }
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        (0..self.cpus)
            .map(|cpu| {
                let [pushed, popped] = [0, 1].map(|index| memory.load(word(cpu, index)));
                let height = pushed.wrapping_sub(popped);
                if height > 8 * self.capacity || !height.is_multiple_of(8) {
                    return Err(format!("CPU {cpu} holds {height:#x} bytes"));
                }
                let places = (0..height).step_by(8).map(|offset| bulk(cpu) + offset);
                Ok(places.map(|place| memory.load(place)).collect())
            })
            .collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let stack = &mut content[cpu];
        match (call.program.name, call.words.as_slice()) {
            ("push", &[_, value]) => {
                let room = stack.len() < self.capacity;
                if room {
                    stack.push(value);
                }
                answer(truth(room))
            }
            ("pop", []) => answer(stack.pop().map_or(none(), |value| some(&[value]))),
            ("push_batch", &[_, _, count]) => {
                let taken = count.min(self.capacity - stack.len());
                stack.extend_from_slice(&BATCH[..taken]);
                answer(plain(&[taken]))
            }
            ("pop_batch", &[_, count]) => {
                let taken = stack.split_off(stack.len().saturating_sub(count));
                Answer {
                    value: plain(&[taken.len()]),
                    filled: taken,
                }
            }
            (other, _) => panic!("what {other} means is not written down"),
        }
    }
}
