//! The structures of `atomseq::local` as the checker sees them: one thread, and sequences that take
//! addresses.

use atomseq::sequence::model::{Memory, Program};
pub use map::Map;
pub use ring::{Passage, Ring};

use crate::layout::bulk;
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

mod map;
mod ring;

/// The address of a structure.
const AT: usize = bulk(0);

/// Returns every structure, in every configuration that is checked.
pub fn all() -> Vec<Box<dyn Structure>> {
    let ring = |passage, history| Ring { passage, history };
    vec![
        Box::new(Counter),
        Box::new(Map { history: 5 }),
        Box::new(Queue {
            capacity: 2,
            history: 10,
        }),
        Box::new(Queue {
            capacity: 4,
            history: 9,
        }),
        Box::new(ring(Passage::WordByWord, 10)),
        Box::new(ring(Passage::Filling { words: 1 }, 9)),
        Box::new(ring(Passage::Filling { words: 4 }, 9)),
        Box::new(Stack {
            capacity: 3,
            history: 10,
        }),
    ]
}

/// Returns the model form of a sequence in a file of `local/`.
fn program(file: &str, name: &str) -> &'static Program {
    super::program(&format!("local/{file}"), name)
}

/// Returns a memory with these words from the start of the structure on.
fn memory(words: impl IntoIterator<Item = usize>) -> Memory {
    let mut memory = Memory::default();
    for (index, word) in words.into_iter().enumerate() {
        memory.store(AT + 8 * index, word);
    }
    memory
}

// `Counter`: one word.

/// A counter to which a thread adds 1, 5, or enough to wrap the word around, and which it drains.
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
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}

// `Stack`: the number of bytes ever pushed and popped, then the array.

/// The initial counts: they wrap around within the history.
const STACK_START: usize = 0usize.wrapping_sub(16);

/// A stack to which 1 and 2 are pushed.
pub struct Stack {
    /// The capacity in words.
    pub capacity: usize,
    /// The bound on the calls in a row: the counts only increase.
    pub history: usize,
}

impl Structure for Stack {
    fn name(&self) -> &'static str {
        "local/stack"
    }

    fn cpus(&self) -> usize {
        1
    }

    fn bulk_bytes(&self) -> usize {
        16 + 8 * self.capacity
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn empty(&self) -> Memory {
        memory(
            [STACK_START, STACK_START]
                .into_iter()
                .chain(vec![0; self.capacity]),
        )
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let [push, pop, height] = ["push", "pop", "height"].map(|name| program("stack", name));
        let bytes = 8 * self.capacity;
        vec![
            Call::new(push, &[AT, bytes, 1]),
            Call::new(push, &[AT, bytes, 2]),
            Call::new(pop, &[AT]),
            Call::new(height, &[AT]),
        ]
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let height = memory.load(AT).wrapping_sub(memory.load(AT + 8));
        if height > 8 * self.capacity || !height.is_multiple_of(8) {
            return Err(format!("the stack holds {height:#x} bytes"));
        }
        let places = (0..height).step_by(8);
        Ok(vec![
            places.map(|offset| memory.load(AT + 16 + offset)).collect(),
        ])
    }

    fn meaning(&self, content: &mut Content, call: &Call, _cpu: usize) -> Answer {
        let stack = &mut content[0];
        match (call.program.name, call.words.as_slice()) {
            ("push", &[_, _, value]) => {
                let room = stack.len() < self.capacity;
                if room {
                    stack.push(value);
                }
                answer(truth(room))
            }
            ("pop", _) => answer(stack.pop().map_or(none(), |value| some(&[value]))),
            ("height", _) => answer(plain(&[8 * stack.len()])),
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}

// `Queue`: the number of bytes ever removed and added, then the array.

/// The initial head and tail: they wrap around within the history.
const QUEUE_START: usize = 0usize.wrapping_sub(24);

/// A queue to which 1 and 2 are pushed.
pub struct Queue {
    /// The capacity in words.
    pub capacity: usize,
    /// The bound on the calls in a row: head and tail only increase.
    pub history: usize,
}

impl Structure for Queue {
    fn name(&self) -> &'static str {
        "local/queue"
    }

    fn cpus(&self) -> usize {
        1
    }

    fn bulk_bytes(&self) -> usize {
        16 + 8 * self.capacity
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn empty(&self) -> Memory {
        memory(
            [QUEUE_START, QUEUE_START]
                .into_iter()
                .chain(vec![0; self.capacity]),
        )
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let [push, pop, length] = ["push", "pop", "length"].map(|name| program("queue", name));
        let bytes = 8 * self.capacity;
        vec![
            Call::new(push, &[AT, bytes, 1]),
            Call::new(push, &[AT, bytes, 2]),
            Call::new(pop, &[AT, bytes]),
            Call::new(length, &[AT]),
        ]
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let [head, tail] = [AT, AT + 8].map(|address| memory.load(address));
        let length = tail.wrapping_sub(head);
        if length > 8 * self.capacity || !length.is_multiple_of(8) {
            return Err(format!("the queue holds {length:#x} bytes"));
        }
        let place = |offset| AT + 16 + head.wrapping_add(offset) % (8 * self.capacity);
        let places = (0..length).step_by(8).map(place);
        Ok(vec![places.map(|place| memory.load(place)).collect()])
    }

    fn meaning(&self, content: &mut Content, call: &Call, _cpu: usize) -> Answer {
        let queue = &mut content[0];
        match (call.program.name, call.words.as_slice()) {
            ("push", &[_, _, value]) => {
                let room = queue.len() < self.capacity;
                if room {
                    queue.push(value);
                }
                answer(truth(room))
            }
            ("pop", _) if queue.is_empty() => answer(none()),
            ("pop", _) => answer(some(&[queue.remove(0)])),
            ("length", _) => answer(plain(&[8 * queue.len()])),
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}
