//! The structures of `atomseq::percpu`, as the checker sees them.

mod counter;
mod stack;

use atomseq::internals::SEQUENCES;
use atomseq::sequence::model::{Memory, Program};

use crate::layout;
use crate::structure::Structure;

pub use counter::Counter;
pub use stack::Stack;

/// Every structure, in every configuration that is checked.
pub fn all() -> Vec<Box<dyn Structure>> {
    vec![
        Box::new(Counter),
        Box::new(Stack {
            cpus: 1,
            capacity: 3,
        }),
        Box::new(Stack {
            cpus: 2,
            capacity: 2,
        }),
    ]
}

/// The model form of one of the library's sequences.
///
/// # Panics
///
/// If there is none of that name in that file.
pub fn program(file: &str, name: &str) -> &'static Program {
    let (_, programs) = SEQUENCES
        .iter()
        .find(|(of, _)| *of == file)
        .unwrap_or_else(|| panic!("atomseq::percpu has no {file} with sequences"));
    programs
        .iter()
        .find(|program| program.name == name)
        .unwrap_or_else(|| panic!("{file} has no sequence {name}"))
}

/// Slots that were never written.
fn zeroed(cpus: usize, words: usize) -> Memory {
    let mut memory = Memory::default();
    for cpu in 0..cpus {
        for index in 0..words {
            memory.store(layout::word(cpu, index), 0);
        }
    }
    memory
}
