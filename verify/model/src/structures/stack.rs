//! `Stack`: in each slot, the address of the first free word of the bulk memory, that of its first
//! and that of its end. `Pool` is made of the same sequences.

use atomseq::sequence::model::Memory;

use super::program;
use crate::layout::{CALLERS, bulk, word};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

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
            memory.store(word(cpu, 0), bulk(cpu));
            memory.store(word(cpu, 1), bulk(cpu));
            memory.store(word(cpu, 2), bulk(cpu) + 8 * self.capacity);
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
        let mut calls = vec![
            Call::new(push, &[1]),
            Call::new(push, &[2]),
            Call::new(pop, &[]),
        ];
        for count in [0, 2, 3] {
            calls.push(Call::new(push_batch, &[CALLERS, count]));
            let fills = BUFFER..BUFFER + 8 * count;
            calls.push(Call::new(pop_batch, &[BUFFER, count]).filling(fills));
        }
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        (0..self.cpus)
            .map(|cpu| {
                let [top, bottom, limit] = [0, 1, 2].map(|index| memory.load(word(cpu, index)));
                if bottom != bulk(cpu) || limit != bottom + 8 * self.capacity {
                    return Err(format!("the bounds of CPU {cpu} have moved"));
                }
                if top < bottom || top > limit || top % 8 != 0 {
                    return Err(format!("the top of CPU {cpu} is at {top:#x}"));
                }
                Ok((bottom..top).step_by(8).map(|at| memory.load(at)).collect())
            })
            .collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let stack = &mut content[cpu];
        match (call.program.name, call.words.as_slice()) {
            ("push", &[value]) => {
                let room = stack.len() < self.capacity;
                if room {
                    stack.push(value);
                }
                answer(truth(room))
            }
            ("pop", []) => answer(stack.pop().map_or(none(), |value| some(&[value]))),
            ("push_batch", &[_, count]) => {
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
