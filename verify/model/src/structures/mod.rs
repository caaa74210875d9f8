//! The structures of `atomseq::percpu`, `atomseq::local` and the guide, the flags of
//! `atomseq::mutex`, and a structure of M94's, as the checker sees them.

mod lists;
pub mod local;
mod mutex;
mod queues;
mod ring;
mod sums;

use atomseq::internals::{LOCAL_SEQUENCES, MUTEX_SEQUENCES, SEQUENCES};
use atomseq::sequence::model::{Memory, Program};

use crate::layout;
use crate::structure::Structure;

pub use lists::Guide;
pub use lists::List;
pub use lists::Stack;
pub use mutex::{Flags, Homes, Readers};
pub use queues::Fifo;
pub use queues::Queue;
pub use ring::Ring;
pub use sums::Counter;
pub use sums::Counters;
pub use sums::Histogram;

/// Returns every structure, in every configuration that is checked.
pub fn all() -> Vec<Box<dyn Structure>> {
    let mut all: Vec<Box<dyn Structure>> = vec![
        Box::new(Counter),
        Box::new(Counters),
        Box::new(Fifo),
        Box::new(Guide),
        Box::new(Histogram),
        Box::new(Flags),
        Box::new(Homes),
        Box::new(Readers),
        Box::new(List),
        Box::new(Queue {
            cpus: 1,
            chains: 1,
            history: 10,
        }),
        Box::new(Queue {
            cpus: 2,
            chains: 1,
            history: 6,
        }),
        Box::new(Ring {
            cpus: 1,
            capacity: 3,
            words: 1,
            history: 6,
        }),
        Box::new(Ring {
            cpus: 1,
            capacity: 2,
            words: 2,
            history: 6,
        }),
        Box::new(Ring {
            cpus: 2,
            capacity: 1,
            words: 1,
            history: 7,
        }),
        Box::new(Stack {
            cpus: 1,
            capacity: 3,
            history: 4,
        }),
        Box::new(Stack {
            cpus: 2,
            capacity: 2,
            history: 2,
        }),
    ];
    all.extend(local::all());
    all
}

/// Returns the model forms of all sequences, by file; those of `local/` as `local/…`, and so on.
pub fn sequences() -> impl Iterator<Item = (&'static str, &'static [&'static Program])> {
    let own = [&lists::SEQUENCES, &queues::SEQUENCES];
    let library = SEQUENCES
        .iter()
        .chain(LOCAL_SEQUENCES)
        .chain(MUTEX_SEQUENCES);
    library.chain(own).copied()
}

/// Returns the model form of one of them.
///
/// # Panics
///
/// If there is none of that name in that file.
pub fn program(file: &str, name: &str) -> &'static Program {
    let (_, programs) = sequences()
        .find(|(of, _)| *of == file)
        .unwrap_or_else(|| panic!("atomseq lists no sequences of a file {file}"));
    programs
        .iter()
        .find(|program| program.name == name)
        .unwrap_or_else(|| panic!("{file} has no sequence {name}"))
}

/// Returns slots that were never written.
fn zeroed(cpus: usize, words: usize) -> Memory {
    let mut memory = Memory::default();
    for cpu in 0..cpus {
        for index in 0..words {
            memory.store(layout::word(cpu, index), 0);
        }
    }
    memory
}
