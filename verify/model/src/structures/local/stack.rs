//! `Stack`: how many bytes were ever pushed and popped, then the array.

use atomseq::sequence::model::Memory;

use super::{AT, memory, program};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

/// Where the counts start: they wrap around within the history.
const START: usize = 0usize.wrapping_sub(16);

/// 1 and 2 are pushed.
pub struct Stack {
    /// For how many words there is room.
    pub capacity: usize,
    /// How many calls in a row: the counts only ever rise.
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
        memory([START, START].into_iter().chain(vec![0; self.capacity]))
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
            (other, _) => panic!("what {other} means is not written down"),
        }
    }
}
