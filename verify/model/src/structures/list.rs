//! `List`: word 0 of each slot is the address of the first link, 0 when there is none; links are
//! the callers'.

use atomseq::sequence::model::Memory;

use super::{program, zeroed};
use crate::layout::{CALLERS, CPUS, word};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some};

/// Two CPUs and three nodes.
pub struct List;

/// The addresses of the nodes' links.
const LINKS: [usize; 3] = [CALLERS, CALLERS + 0x10, CALLERS + 0x20];

impl Structure for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        CALLERS..CALLERS + 0x30
    }

    fn empty(&self) -> Memory {
        let mut memory = zeroed(CPUS, 1);
        for link in LINKS {
            memory.store(link, 0);
        }
        memory
    }

    /// Only a node in no list can be pushed: pushing gives it up.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let listed = self.content(memory).expect("the checker asked before");
        let free = LINKS
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
                if !LINKS.contains(&link) {
                    return Err(format!("{link:#x} in the list of CPU {cpu} is no link"));
                }
                if seen.contains(&link) {
                    return Err(format!("{link:#x} is listed twice, again on CPU {cpu}"));
                }
                seen.push(link);
                links.push(link);
                link = memory.load(link);
            }
            // The last pushed last, as in every stack here.
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
            (other, _) => panic!("what {other} means is not written down"),
        }
    }
}
