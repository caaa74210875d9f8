//! Structures that remove elements at the opposite end: `Queue`, and a queue of M94.
//!
//! `Queue`: words 0 and 1 of each slot are the cells at the head and at the tail of a ring of
//! cells, each a link, a value and a number.

use atomseq::sequence::model::{Memory, Program};

use super::{program, zeroed};
use crate::layout::{CALLERS, bulk, word};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

/// A queue whose rings start with two cells each; callers have chains of two cells to grow them. 1
/// and 2 are pushed.
pub struct Queue {
    /// The number of CPUs.
    pub cpus: usize,
    /// The number of the callers' chains.
    pub chains: usize,
    /// The bound on the calls in a row: numbers only increase.
    pub history: usize,
}

const CELL_BYTES: usize = 24;
const NUMBER: usize = 16;
const FIRST_CELLS: usize = 2;
const CHAIN_CELLS: usize = 2;

fn chain(number: usize) -> usize {
    CALLERS + 0x100 * number
}

impl Queue {
    /// Returns the cells of a CPU's ring from the head on: those up to the tail, and the rest.
    fn ring(&self, memory: &Memory, cpu: usize) -> Result<(Vec<usize>, Vec<usize>), String> {
        let max = FIRST_CELLS + self.chains * CHAIN_CELLS;
        let [head, tail] = [0, 1].map(|index| memory.load(word(cpu, index)));
        let (mut full, mut free) = (Vec::new(), Vec::new());
        let mut cell = head;
        loop {
            let known = cell.is_multiple_of(8)
                && crate::layout::is_mapped(cell, self.cpus, self.bulk_bytes());
            if !known {
                return Err(format!("{cell:#x} in the ring of CPU {cpu} is no cell"));
            }
            if cell == tail && !free.is_empty() || full.len() + free.len() > max {
                return Err(format!("the ring of CPU {cpu} misses its head"));
            }
            if cell == tail || !free.is_empty() {
                free.push(cell);
            } else {
                full.push(cell);
            }
            cell = memory.load(cell);
            if cell == head {
                break;
            }
        }
        if free.is_empty() {
            return Err(format!("the tail of CPU {cpu} is outside its ring"));
        }
        let numbers = full.iter().chain(&free[..1]);
        let numbers: Vec<usize> = numbers.map(|cell| memory.load(cell + NUMBER)).collect();
        if numbers.windows(2).any(|pair| pair[1] != pair[0] + 1) {
            return Err(format!("the cells of CPU {cpu} are numbered {numbers:?}"));
        }
        Ok((full, free))
    }
}

impl Structure for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn bulk_bytes(&self) -> usize {
        FIRST_CELLS * CELL_BYTES
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        chain(0)..chain(self.chains)
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        let mut chain_at = |start: usize, cells: usize, end: usize| {
            for index in 0..cells {
                let cell = start + CELL_BYTES * index;
                let last = index + 1 == cells;
                memory.store(cell, if last { end } else { cell + CELL_BYTES });
                memory.store(cell + 8, 0);
                memory.store(cell + NUMBER, 0);
            }
        };
        for cpu in 0..self.cpus {
            chain_at(bulk(cpu), FIRST_CELLS, bulk(cpu));
        }
        for number in 0..self.chains {
            chain_at(chain(number), CHAIN_CELLS, 0);
        }
        for cpu in 0..self.cpus {
            memory.store(word(cpu, 0), bulk(cpu));
            memory.store(word(cpu, 1), bulk(cpu));
        }
        memory
    }

    /// Only a chain that is in no ring can be added to one.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let [push, pop, grow] = ["push", "pop", "grow"].map(|name| program("queue", name));
        let mut calls = vec![
            Call::new(push, &[1]),
            Call::new(push, &[2]),
            Call::new(pop, &[]),
        ];
        let used: Vec<usize> = (0..self.cpus)
            .flat_map(|cpu| {
                let (full, free) = self.ring(memory, cpu).expect("the checker asked before");
                full.into_iter().chain(free)
            })
            .collect();
        let unused = (0..self.chains)
            .map(chain)
            .filter(|first| !used.contains(first));
        calls.extend(
            unused.map(|first| Call::new(grow, &[first, first + CELL_BYTES * (CHAIN_CELLS - 1)])),
        );
        calls
    }

    /// The values of each CPU, then the number of cells of each CPU's ring.
    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut content = Content::new();
        let mut cells = Content::new();
        let mut seen = Vec::new();
        for cpu in 0..self.cpus {
            let (full, free) = self.ring(memory, cpu)?;
            content.push(full.iter().map(|cell| memory.load(cell + 8)).collect());
            cells.push(vec![full.len() + free.len()]);
            seen.extend(full.into_iter().chain(free));
        }
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a cell is in two places".to_owned());
        }
        content.extend(cells);
        Ok(content)
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let cells = content[self.cpus + cpu][0];
        match (call.program.name, call.words.as_slice()) {
            ("push", &[value]) => {
                // One cell is always free.
                let room = content[cpu].len() + 1 < cells;
                if room {
                    content[cpu].push(value);
                }
                answer(truth(room))
            }
            ("pop", []) if content[cpu].is_empty() => answer(none()),
            ("pop", []) => answer(some(&[content[cpu].remove(0)])),
            ("grow", _) => {
                content[self.cpus + cpu] = vec![cells + CHAIN_CELLS];
                answer(plain(&[]))
            }
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}

// M94's program FIFO (4.1): a queue of linked nodes that a thread shares with its signal handlers.
// Enqueueing and dequeueing store several visible words, so both are rolled forward.

mod sequences {
    atomseq::sequence! {
        /// Appends a node. The queue's words are its first node and the address of the last link; a
        /// node's first word is its link.
        pub(super) unsafe fn enqueue(queue: Word, node: Word) {
            let place = load(queue + 8);
            store(node, 0);
            store(place, node);
            store(queue + 8, node);
        }

        /// Removes the first node.
        pub(super) unsafe fn dequeue(queue: Word) -> Option<Word> {
            let first = load(queue);
            if first == 0 { return None }
            let next = load(first);
            store(queue, next);
            if next != 0 { return Some(first) }
            store(queue + 8, queue);
            Some(first)
        }
    }
}

/// The sequences, for the list of all sequences.
pub const SEQUENCES: (&str, &[&Program]) = (
    "fifo",
    &[&sequences::enqueue::MODEL, &sequences::dequeue::MODEL],
);

/// A queue of one thread, and three nodes.
pub struct Fifo;

const FIFO: usize = word(0, 0);
const FIFO_NODES: [usize; 3] = [CALLERS, CALLERS + 0x10, CALLERS + 0x20];

impl Structure for Fifo {
    fn name(&self) -> &'static str {
        SEQUENCES.0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        FIFO_NODES[0]..FIFO_NODES[2] + 8
    }

    fn empty(&self) -> Memory {
        let mut memory = zeroed(1, 2);
        memory.store(FIFO + 8, FIFO);
        for node in FIFO_NODES {
            memory.store(node, 0);
        }
        memory
    }

    /// Only a node that is not in the queue can be appended.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let [enqueue, dequeue] = [0, 1].map(|index| SEQUENCES.1[index]);
        let queued = self.content(memory).expect("the checker asked before");
        let free = FIFO_NODES.iter().filter(|node| !queued[0].contains(node));
        let mut calls: Vec<Call> = free
            .map(|node| Call::new(enqueue, &[FIFO, *node]))
            .collect();
        calls.push(Call::new(dequeue, &[FIFO]));
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut nodes = Vec::new();
        let (mut link, mut node) = (FIFO, memory.load(FIFO));
        while node != 0 {
            if !FIFO_NODES.contains(&node) || nodes.contains(&node) {
                return Err(format!("{node:#x} is no node, or queued twice"));
            }
            nodes.push(node);
            (link, node) = (node, memory.load(node));
        }
        match memory.load(FIFO + 8) {
            last if last == link => Ok(vec![nodes]),
            last => Err(format!("the last link is {link:#x}, not {last:#x}")),
        }
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let queue = &mut content[cpu];
        match (call.program.name, call.words.as_slice()) {
            ("enqueue", &[_, node]) => {
                queue.push(node);
                answer(plain(&[]))
            }
            ("dequeue", _) if queue.is_empty() => answer(none()),
            ("dequeue", _) => answer(some(&[queue.remove(0)])),
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}
