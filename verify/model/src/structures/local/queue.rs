//! `Queue`: how many bytes ever went out and came in, then the array.

use atomseq::sequence::model::Memory;

use super::{AT, memory, program};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

/// Where head and tail start: they wrap around within the history.
const START: usize = 0usize.wrapping_sub(24);

/// 1 and 2 are pushed.
pub struct Queue {
    /// For how many words there is room.
    pub capacity: usize,
    /// How many calls in a row: head and tail only ever rise.
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
        memory([START, START].into_iter().chain(vec![0; self.capacity]))
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
            (other, _) => panic!("what {other} means is not written down"),
        }
    }
}
