//! The structures of `atomseq::local`, as the checker sees them: one thread, and sequences that
//! take addresses.

mod counter;
mod map;
mod queue;
mod ring;
mod stack;

use atomseq::sequence::model::{Memory, Program};

use crate::layout::bulk;
use crate::structure::Structure;

pub use counter::Counter;
pub use map::Map;
pub use queue::Queue;
pub use ring::{Passage, Ring};
pub use stack::Stack;

/// Where a structure lies.
const AT: usize = bulk(0);

/// Every structure, in every configuration that is checked.
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

/// The model form of a sequence in a file of `local/`.
fn program(file: &str, name: &str) -> &'static Program {
    super::program(&format!("local/{file}"), name)
}

/// Words from the start of the structure on, as these.
fn memory(words: impl IntoIterator<Item = usize>) -> Memory {
    let mut memory = Memory::default();
    for (index, word) in words.into_iter().enumerate() {
        memory.store(AT + 8 * index, word);
    }
    memory
}
