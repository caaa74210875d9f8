//! The page cache that the guide builds (`docs::patterns`): word 0 of each slot is a count and the
//! first page; pages are linked by number, through an array that all CPUs share.

use atomseq::sequence::model::{Memory, Program};

use super::zeroed;
use crate::layout::{CALLERS, CPUS, word};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some};

mod sequences {
    include!("../../../../crates/atomseq/src/docs/patterns/sequences.rs");

    pub const ALL: &[&atomseq::sequence::model::Program] =
        &[&release::MODEL, &take::MODEL, &take_all::MODEL];
}

/// The guide's sequences, for the list of all.
pub const SEQUENCES: (&str, &[&Program]) = ("sequences", sequences::ALL);

/// Two CPUs and three pages.
pub struct Guide;

/// Page 0 stands for none.
const PAGES: std::ops::RangeInclusive<usize> = 1..=3;
const LINKS: usize = CALLERS;

impl Structure for Guide {
    fn name(&self) -> &'static str {
        "guide"
    }

    fn file(&self) -> &'static str {
        SEQUENCES.0
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        LINKS + 8..LINKS + 8 * (PAGES.end() + 1)
    }

    fn empty(&self) -> Memory {
        let mut memory = zeroed(CPUS, 1);
        for page in PAGES {
            memory.store(LINKS + 8 * page, 0);
        }
        memory
    }

    /// Only a page in no list can be released.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let [release, take, take_all] = [0, 1, 2].map(|index| sequences::ALL[index]);
        let listed = self.content(memory).expect("the checker asked before");
        let free = PAGES.filter(|page| !listed.iter().flatten().any(|other| other == page));
        let mut calls: Vec<Call> = free
            .map(|page| Call::new(release, &[LINKS, page]))
            .collect();
        calls.push(Call::new(take, &[LINKS]));
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
                page = memory.load(LINKS + 8 * page);
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
            (other, _) => panic!("what {other} means is not written down"),
        }
    }
}
