//! M94's program FIFO (4.1): a queue of linked nodes that a thread shares with its signal handlers.
//! Enqueueing and dequeueing store several visible words, so both are rolled forward.

use atomseq::sequence::model::{Memory, Program};

use super::zeroed;
use crate::layout::{CALLERS, word};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some};

mod sequences {
    atomseq::sequence! {
        /// Puts a node at the end. The queue's words are its first node and where the last link is;
        /// a node's first word is its link.
        pub(super) unsafe fn enqueue(queue: Word, node: Word) {
            let place = load(queue + 8);
            store(node, 0);
            store(place, node);
            store(queue + 8, node);
        }

        /// Takes the first node.
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

/// The sequences, for the list of all.
pub const SEQUENCES: (&str, &[&Program]) = (
    "fifo",
    &[&sequences::enqueue::MODEL, &sequences::dequeue::MODEL],
);

/// One thread and three nodes.
pub struct Fifo;

const QUEUE: usize = word(0, 0);
const NODES: [usize; 3] = [CALLERS, CALLERS + 0x10, CALLERS + 0x20];

impl Structure for Fifo {
    fn name(&self) -> &'static str {
        SEQUENCES.0
    }

    fn cpus(&self) -> usize {
        1
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        NODES[0]..NODES[2] + 8
    }

    fn empty(&self) -> Memory {
        let mut memory = zeroed(1, 2);
        memory.store(QUEUE + 8, QUEUE);
        for node in NODES {
            memory.store(node, 0);
        }
        memory
    }

    /// Only a node that is not in the queue can be put there.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let [enqueue, dequeue] = [0, 1].map(|index| SEQUENCES.1[index]);
        let queued = self.content(memory).expect("the checker asked before");
        let free = NODES.iter().filter(|node| !queued[0].contains(node));
        let mut calls: Vec<Call> = free
            .map(|node| Call::new(enqueue, &[QUEUE, *node]))
            .collect();
        calls.push(Call::new(dequeue, &[QUEUE]));
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut nodes = Vec::new();
        let (mut link, mut node) = (QUEUE, memory.load(QUEUE));
        while node != 0 {
            if !NODES.contains(&node) || nodes.contains(&node) {
                return Err(format!("{node:#x} is no node, or queued twice"));
            }
            nodes.push(node);
            (link, node) = (node, memory.load(node));
        }
        match memory.load(QUEUE + 8) {
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
            (other, _) => panic!("what {other} means is not written down"),
        }
    }
}
