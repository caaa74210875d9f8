//! Structures that remove elements at the end where they are added: `Stack`, `List`, and the page
//! cache that the guide builds.
//!
//! `Stack`: each slot holds the number of bytes ever pushed and popped; their difference is the
//! used part of the array behind the slot. `Pool` consists of the same sequences.

use atomseq::sequence::model::{Memory, Program};

use super::{program, zeroed};
use crate::layout::{CALLERS, CPUS, bulk, word};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

/// The initial counts: they wrap around within the history.
const START: usize = 0usize.wrapping_sub(16);

/// A caller's batch to push, its first word at `CALLERS`.
const BATCH: [usize; 3] = [1, 2, 1];
/// The caller's buffer for popped words.
const BUFFER: usize = CALLERS + 0x100;

/// A stack to which 1 and 2 are pushed, alone or in batches.
pub struct Stack {
    /// The number of CPUs.
    pub cpus: usize,
    /// Each CPU's capacity in words.
    pub capacity: usize,
    /// The bound on the calls in a row.
    pub history: usize,
}

impl Structure for Stack {
    fn name(&self) -> &'static str {
        "stack"
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn bulk_bytes(&self) -> usize {
        8 * self.capacity
    }

    fn empty(&self) -> Memory {
        let mut memory = Memory::default();
        for cpu in 0..self.cpus {
            memory.store(word(cpu, 0), START);
            memory.store(word(cpu, 1), START);
            for index in 0..self.capacity {
                memory.store(bulk(cpu) + 8 * index, 0);
            }
        }
        for (index, value) in BATCH.into_iter().enumerate() {
            memory.store(CALLERS + 8 * index, value);
        }
        memory
    }

    fn calls(&self, _memory: &Memory) -> Vec<Call> {
        let [push, pop, push_batch, pop_batch] =
            ["push", "pop", "push_batch", "pop_batch"].map(|name| program("stack", name));
        let bytes = 8 * self.capacity;
        let mut calls = vec![
            Call::new(push, &[bytes, 1]),
            Call::new(push, &[bytes, 2]),
            Call::new(pop, &[]),
        ];
        let counts: &[usize] = if self.cpus == 1 { &[0, 2, 3] } else { &[2] };
        for &count in counts {
            calls.push(Call::new(push_batch, &[bytes, CALLERS, count]));
            let fills = BUFFER..BUFFER + 8 * count;
            calls.push(Call::new(pop_batch, &[BUFFER, count]).filling(fills));
        }
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        (0..self.cpus)
            .map(|cpu| {
                let [pushed, popped] = [0, 1].map(|index| memory.load(word(cpu, index)));
                let height = pushed.wrapping_sub(popped);
                if height > 8 * self.capacity || !height.is_multiple_of(8) {
                    return Err(format!("CPU {cpu} holds {height:#x} bytes"));
                }
                let places = (0..height).step_by(8).map(|offset| bulk(cpu) + offset);
                Ok(places.map(|place| memory.load(place)).collect())
            })
            .collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let stack = &mut content[cpu];
        match (call.program.name, call.words.as_slice()) {
            ("push", &[_, value]) => {
                let room = stack.len() < self.capacity;
                if room {
                    stack.push(value);
                }
                answer(truth(room))
            }
            ("pop", []) => answer(stack.pop().map_or(none(), |value| some(&[value]))),
            ("push_batch", &[_, _, count]) => {
                let taken = count.min(self.capacity - stack.len());
                stack.extend_from_slice(&BATCH[..taken]);
                answer(plain(&[taken]))
            }
            ("pop_batch", &[_, count]) => {
                let taken = stack.split_off(stack.len().saturating_sub(count));
                Answer {
                    value: plain(&[taken.len()]),
                    filled: taken,
                }
            }
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}

// `List`: word 0 of each slot is the address of the first link, or 0; the links are the callers'.

/// A list on two CPUs, and three nodes.
pub struct List;

/// The addresses of the nodes' links.
const LIST_LINKS: [usize; 3] = [CALLERS, CALLERS + 0x10, CALLERS + 0x20];

impl Structure for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        CALLERS..CALLERS + 0x30
    }

    fn empty(&self) -> Memory {
        let mut memory = zeroed(CPUS, 1);
        for link in LIST_LINKS {
            memory.store(link, 0);
        }
        memory
    }

    /// Only a node in no list can be pushed, because pushing transfers its ownership.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let listed = self.content(memory).expect("the checker asked before");
        let free = LIST_LINKS
            .into_iter()
            .filter(|link| !listed.iter().flatten().any(|other| other == link));
        let mut calls: Vec<Call> = free
            .map(|link| Call::new(program("list", "push"), &[link]))
            .collect();
        calls.push(Call::new(program("list", "pop"), &[]));
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut seen = Vec::new();
        let mut list = |cpu| {
            let mut links = Vec::new();
            let mut link = memory.load(word(cpu, 0));
            while link != 0 {
                if !LIST_LINKS.contains(&link) {
                    return Err(format!("{link:#x} in the list of CPU {cpu} is no link"));
                }
                if seen.contains(&link) {
                    return Err(format!("{link:#x} is listed twice, again on CPU {cpu}"));
                }
                seen.push(link);
                links.push(link);
                link = memory.load(link);
            }
            // The first node last, as in every stack here.
            links.reverse();
            Ok(links)
        };
        (0..CPUS).map(&mut list).collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        match (call.program.name, call.words.as_slice()) {
            ("push", &[link]) => {
                content[cpu].push(link);
                answer(plain(&[]))
            }
            ("pop", []) => answer(content[cpu].pop().map_or(none(), |link| some(&[link]))),
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}

// The page cache that the guide builds (`docs::patterns`): word 0 of each slot is a count and the
// first page; pages are linked by number, through an array shared by all CPUs.

mod sequences {
    include!("../../../../crates/atomseq/src/docs/patterns/sequences.rs");

    pub const ALL: &[&atomseq::sequence::model::Program] =
        &[&release::MODEL, &take::MODEL, &take_all::MODEL];
}

/// The guide's sequences, for the list of all sequences.
pub const SEQUENCES: (&str, &[&Program]) = ("sequences", sequences::ALL);

/// The cache on two CPUs, and three pages.
pub struct Guide;

/// Page 0 means none.
const PAGES: std::ops::RangeInclusive<usize> = 1..=3;
const PAGE_LINKS: usize = CALLERS;

impl Structure for Guide {
    fn name(&self) -> &'static str {
        "guide"
    }

    fn file(&self) -> &'static str {
        SEQUENCES.0
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        PAGE_LINKS + 8..PAGE_LINKS + 8 * (PAGES.end() + 1)
    }

    fn empty(&self) -> Memory {
        let mut memory = zeroed(CPUS, 1);
        for page in PAGES {
            memory.store(PAGE_LINKS + 8 * page, 0);
        }
        memory
    }

    /// Only a page in no list can be released.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let [release, take, take_all] = [0, 1, 2].map(|index| sequences::ALL[index]);
        let listed = self.content(memory).expect("the checker asked before");
        let free = PAGES.filter(|page| !listed.iter().flatten().any(|other| other == page));
        let mut calls: Vec<Call> = free
            .map(|page| Call::new(release, &[PAGE_LINKS, page]))
            .collect();
        calls.push(Call::new(take, &[PAGE_LINKS]));
        calls.push(Call::new(take_all, &[]));
        calls
    }

    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let mut seen = Vec::new();
        let mut list = |cpu| {
            let head = memory.load(word(cpu, 0));
            let mut pages = Vec::new();
            let mut page = head & 0xffff;
            while page != 0 {
                if !PAGES.contains(&page) || seen.contains(&page) {
                    return Err(format!("page {page} on CPU {cpu} is none, or listed twice"));
                }
                seen.push(page);
                pages.push(page);
                page = memory.load(PAGE_LINKS + 8 * page);
            }
            if head >> 16 != pages.len() {
                return Err(format!("CPU {cpu} counts {} of {pages:?}", head >> 16));
            }
            pages.reverse();
            Ok(pages)
        };
        (0..CPUS).map(&mut list).collect()
    }

    fn meaning(&self, content: &mut Content, call: &Call, cpu: usize) -> Answer {
        let pages = &mut content[cpu];
        match (call.program.name, call.words.as_slice()) {
            ("release", &[_, page]) => {
                pages.push(page);
                answer(plain(&[]))
            }
            ("take", _) => answer(pages.pop().map_or(none(), |page| some(&[page]))),
            ("take_all", _) => {
                let head = pages.len() << 16 | pages.last().unwrap_or(&0);
                pages.clear();
                answer(plain(&[head]))
            }
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}
