//! `Ring`: the number of elements ever popped and pushed, then the buffer.

use atomseq::sequence::model::Memory;

use super::{AT, memory, program};
use crate::layout::CALLERS;
use crate::structure::{Answer, Call, Content, Structure, answer, plain, truth};

/// The capacity in elements.
const CAPACITY: usize = 2;

const BUFFER: usize = AT + 16;

/// The initial head and tail: they wrap around within the history.
const START: usize = usize::MAX - 1;

/// The caller's words to push: 1 to 8.
const FROM: usize = CALLERS;
/// The caller's buffer for a popped word.
const TO: usize = CALLERS + 0x100;

/// How elements are pushed and popped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Elements of one word, in one sequence each.
    WordByWord,
    /// Elements of one word or four: filled in first, then passed over by moving the tail.
    Filling {
        /// 1 or 4.
        words: usize,
    },
}

/// A ring for two elements.
pub struct Ring {
    /// How elements are pushed and popped.
    pub passage: Passage,
    /// The bound on the calls in a row: head and tail only increase.
    pub history: usize,
}

impl Ring {
    fn words(&self) -> usize {
        match self.passage {
            Passage::WordByWord => 1,
            Passage::Filling { words } => words,
        }
    }

    fn word_by_word(&self) -> Vec<Call> {
        let [push, pop] = ["push_word", "pop_word"].map(|name| program("ring", name));
        let mask = CAPACITY - 1;
        vec![
            Call::new(push, &[AT, BUFFER, mask, FROM]),
            Call::new(push, &[AT, BUFFER, mask, FROM + 8]),
            Call::new(pop, &[AT, BUFFER, mask, TO]).filling(TO..TO + 8),
        ]
    }

    /// Returns the calls of an operation that found head and tail here, or one further back.
    fn filling(&self, words: usize, memory: &Memory) -> Vec<Call> {
        let [head, tail] = [AT, AT + 8].map(|address| memory.load(address));
        let fill = program("ring", if words == 1 { "fill" } else { "fill_four" });
        let advance = program("ring", "advance");
        let mut calls = Vec::new();
        for behind in [0, 1] {
            let (head, tail) = (head.wrapping_sub(behind), tail.wrapping_sub(behind));
            let length = tail.wrapping_sub(head);
            if length < CAPACITY {
                let to = BUFFER + 8 * words * (tail % CAPACITY);
                calls.push(Call::new(fill, &[AT, tail, to, FROM]));
                calls.push(Call::new(fill, &[AT, tail, to, FROM + 8 * words]));
                calls.push(Call::new(advance, &[AT + 8, tail, tail.wrapping_add(1)]));
            }
            if length > 0 {
                calls.push(Call::new(advance, &[AT, head, head.wrapping_add(1)]));
            }
        }
        calls
    }
}

impl Structure for Ring {
    fn name(&self) -> &'static str {
        "local/ring"
    }

    fn cpus(&self) -> usize {
        1
    }

    fn bulk_bytes(&self) -> usize {
        16 + 8 * CAPACITY * self.words()
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn empty(&self) -> Memory {
        let buffer = vec![0; CAPACITY * self.words()];
        let mut memory = memory([START, START].into_iter().chain(buffer));
        for index in 0..8 {
            memory.store(FROM + 8 * index, index + 1);
        }
        memory
    }

    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let mut calls = match self.passage {
            Passage::WordByWord => self.word_by_word(),
            Passage::Filling { words } => self.filling(words, memory),
        };
        calls.push(Call::new(program("ring", "state"), &[AT]));
        calls
    }

    /// Head and tail, and the elements where each passes in one sequence. Otherwise the whole
    /// buffer, because elements are filled in before the tail moves over them.
    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let [head, tail] = [AT, AT + 8].map(|address| memory.load(address));
        let length = tail.wrapping_sub(head);
        if length > CAPACITY {
            return Err(format!("the ring holds {length} elements"));
        }
        let at = |index: usize| memory.load(BUFFER + 8 * index);
        let words = match self.passage {
            Passage::WordByWord => (0..length)
                .map(|index| at(head.wrapping_add(index) % CAPACITY))
                .collect(),
            Passage::Filling { words } => (0..CAPACITY * words).map(at).collect(),
        };
        Ok(vec![vec![head, tail], words])
    }

    fn meaning(&self, content: &mut Content, call: &Call, _cpu: usize) -> Answer {
        let [head, tail] = content[0][..] else {
            unreachable!("`content` makes two");
        };
        let given = |from: usize| (from - FROM) / 8 + 1;
        match (call.program.name, call.words.as_slice()) {
            ("state", _) => answer(plain(&[head, tail])),
            ("push_word", &[_, _, _, from]) => {
                let room = content[1].len() < CAPACITY;
                if room {
                    content[0][1] = tail.wrapping_add(1);
                    content[1].push(given(from));
                }
                answer(truth(room))
            }
            ("pop_word", _) => {
                let there = head != tail;
                let mut filled = Vec::new();
                if there {
                    content[0][0] = head.wrapping_add(1);
                    filled.push(content[1].remove(0));
                }
                let value = truth(there);
                Answer { value, filled }
            }
            ("fill" | "fill_four", &[_, seen, to, from]) => {
                if seen == tail {
                    let first = (to - BUFFER) / 8;
                    for word in 0..self.words() {
                        content[1][first + word] = given(from) + word;
                    }
                }
                answer(truth(seen == tail))
            }
            ("advance", &[position, seen, next]) => {
                let position = &mut content[0][(position - AT) / 8];
                let unmoved = *position == seen;
                if unmoved {
                    *position = next;
                }
                answer(truth(unmoved))
            }
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}
