//! `Ring`: each slot holds the number of elements ever popped and pushed, with the mask and the
//! capacity of the buffer behind the slot.

use atomseq::sequence::model::Memory;

use super::program;
use crate::layout::{CALLERS, bulk, word};
use crate::structure::{Answer, Call, Content, Structure, answer, plain, truth};

/// A ring of elements of one word, or of two where `words` is 2.
pub struct Ring {
    /// The number of CPUs.
    pub cpus: usize,
    /// The capacity in elements.
    pub capacity: usize,
    /// The number of words of an element.
    pub words: usize,
    /// The bound on the calls in a row: head and tail only increase.
    pub history: usize,
}

/// The initial head and tail: they wrap around within the history.
const START: usize = usize::MAX - 2;

/// The caller's elements to push: words 1, 2, 3, ….
const BATCH: usize = CALLERS;
/// The caller's buffer for popped elements.
const BUFFER: usize = CALLERS + 0x100;

impl Ring {
    fn places(&self) -> usize {
        self.capacity.next_power_of_two()
    }
}

impl Structure for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn bulk_bytes(&self) -> usize {
        8 * self.places() * self.words
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        for cpu in 0..self.cpus {
            let words = [START, START, self.places() - 1, self.capacity];
            for (index, value) in words.into_iter().enumerate() {
                memory.store(word(cpu, index), value);
            }
            for index in 0..self.places() * self.words {
                memory.store(bulk(cpu) + 8 * index, 0);
            }
        }
        for index in 0..self.capacity * self.words {
            memory.store(BATCH + 8 * index, index + 1);
        }
        memory
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let [push_word, pop_word, push_batch, pop_batch] =
            ["push_word", "pop_word", "push_batch", "pop_batch"].map(|name| program("ring", name));
        let mut calls = Vec::new();
        if self.words == 1 {
            calls.push(Call::new(push_word, &[BATCH]));
            calls.push(Call::new(pop_word, &[BUFFER]).filling(BUFFER..BUFFER + 8));
        }
        for count in [1, self.capacity] {
            calls.push(Call::new(push_batch, &[BATCH, count, self.words]));
            let fills = BUFFER..BUFFER + 8 * count * self.words;
            calls.push(Call::new(pop_batch, &[BUFFER, count, self.words]).filling(fills));
        }
        calls
    }

    /// Each CPU's words, the oldest first, then the index of each CPU's oldest element: a batch
    /// ends where the buffer does.
    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut content = Content::new();
        let mut places = Content::new();
        for cpu in 0..self.cpus {
            let [head, tail, mask, capacity] =
                [0, 1, 2, 3].map(|index| memory.load(word(cpu, index)));
            if (mask, capacity) != (self.places() - 1, self.capacity) {
                return Err(format!("the bounds of CPU {cpu} have changed"));
            }
            let length = tail.wrapping_sub(head);
            if length > capacity {
                return Err(format!("CPU {cpu} holds {length} elements"));
            }
            let words = (0..length).flat_map(|index| {
                let place = head.wrapping_add(index) % self.places();
                (0..self.words).map(move |word| bulk(cpu) + 8 * (place * self.words + word))
            });
            content.push(words.map(|address| memory.load(address)).collect());
            places.push(vec![head % self.places()]);
        }
        content.extend(places);
        Ok(content)
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let head = content[self.cpus + cpu][0];
        let length = content[cpu].len() / self.words;
        let until_end = |place: usize| self.places() - place % self.places();
        let count = call.words.get(1).copied().unwrap_or(1);
        match call.program.name {
            "push_word" | "push_batch" => {
                let room = self.capacity - length;
                let taken = count.min(room).min(until_end(head + length));
                content[cpu].extend(1..=taken * self.words);
                answer(match call.program.name {
                    "push_word" => truth(taken == 1),
                    _ => plain(&[taken]),
                })
            }
            "pop_word" | "pop_batch" => {
                let taken = count.min(length).min(until_end(head));
                let filled = content[cpu].drain(..taken * self.words).collect();
                content[self.cpus + cpu][0] = (head + taken) % self.places();
                let value = match call.program.name {
                    "pop_word" => truth(taken == 1),
                    _ => plain(&[taken]),
                };
                Answer { value, filled }
            }
            other => panic!("the meaning of {other} is not defined"),
        }
    }
}
