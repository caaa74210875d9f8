//! `Map`: the counts of keys ever inserted and removed, then entries of a key and a value each. The
//! operations that consist of these sequences, with handlers, are tested beside the map.

use atomseq::sequence::model::Memory;

use super::{AT, memory, program};
use crate::structure::{Answer, Call, Content, Structure, answer, none, plain, some, truth};

const ENTRIES: usize = 2;

const FREE: usize = 0;
const GONE: usize = usize::MAX;

/// The initial count of inserted keys: the counts wrap around within the history.
const START: usize = usize::MAX - 1;

/// A map of two entries, and two keys.
pub struct Map {
    /// The bound on the calls in a row: the counts only increase.
    pub history: usize,
}

impl Structure for Map {
    fn name(&self) -> &'static str {
        "local/map"
    }

    fn cpus(&self) -> usize {
        1
    }

    fn bulk_bytes(&self) -> usize {
        16 + 16 * ENTRIES
    }

    fn longest_history(&self) -> usize {
        self.history
    }

    fn empty(&self) -> Memory {
        memory([START, START].into_iter().chain([0; 2 * ENTRIES]))
    }

    /// Calls at the current version, and at the previous one, as an interrupted search would.
    fn calls(&self, memory: &Memory) -> Vec<Call> {
        let of = |name| program("map", name);
        let now = memory.load(AT).wrapping_add(memory.load(AT + 8));
        let mut calls = vec![
            Call::new(of("version"), &[AT]),
            Call::new(of("length"), &[AT]),
        ];
        for entry in (0..ENTRIES).map(|index| AT + 16 + 16 * index) {
            let key = memory.load(entry);
            for version in [now, now.wrapping_sub(1)] {
                if matches!(key, FREE | GONE) {
                    calls.push(Call::new(of("claim"), &[AT, version, entry, 3, 10]));
                    calls.push(Call::new(of("free"), &[AT, version, entry]));
                } else {
                    calls.push(Call::new(of("remove"), &[AT, version, entry, FREE]));
                    calls.push(Call::new(of("remove"), &[AT, version, entry, GONE]));
                }
            }
            for key in [3, 4] {
                calls.push(Call::new(of("read"), &[entry, key]));
                calls.push(Call::new(of("replace"), &[entry, key, 20]));
                calls.push(Call::new(of("add"), &[entry, key, 7]));
            }
            calls.push(Call::new(of("pair"), &[entry]));
        }
        calls
    }

    /// The counts and the entries; the value of an entry without a key is not compared.
    fn content(&self, memory: &Memory) -> Result<Content, String> {
        let pair = |index: usize| {
            let at = AT + 16 * index;
            vec![memory.load(at), memory.load(at + 8)]
        };
        Ok((0..=ENTRIES).map(pair).collect())
    }

    fn meaning(&self, content: &mut Content, call: &Call, _cpu: usize) -> Answer {
        let [inserted, removed] = content[0][..] else {
            unreachable!("`content` makes two");
        };
        let now = inserted.wrapping_add(removed);
        let index = |entry: usize| (entry - AT) / 16;
        match (call.program.name, call.words.as_slice()) {
            ("version", _) => answer(plain(&[now])),
            ("length", _) => answer(plain(&[inserted.wrapping_sub(removed)])),
            ("claim", &[_, version, entry, key, value]) => {
                if version == now {
                    content[index(entry)] = vec![key, value];
                    content[0][0] = inserted.wrapping_add(1);
                }
                answer(truth(version == now))
            }
            ("remove", &[_, version, entry, mark]) => {
                if version != now {
                    return answer(none());
                }
                content[0][1] = removed.wrapping_add(1);
                content[index(entry)][0] = mark;
                answer(some(&[content[index(entry)][1]]))
            }
            ("free", &[_, version, entry]) => {
                if version == now {
                    content[index(entry)][0] = FREE;
                }
                answer(truth(version == now))
            }
            ("pair", &[entry]) => answer(plain(&content[index(entry)])),
            (name, &[entry, key, ..]) => {
                let [found, value] = &mut content[index(entry)][..] else {
                    unreachable!("`content` makes two");
                };
                let is_there = *found == key;
                match name {
                    "read" if is_there => answer(some(&[*value])),
                    "replace" if is_there => {
                        answer(some(&[std::mem::replace(value, call.words[2])]))
                    }
                    "read" | "replace" => answer(none()),
                    "add" => {
                        if is_there {
                            *value = value.wrapping_add(call.words[2]);
                        }
                        answer(truth(is_there))
                    }
                    other => panic!("the meaning of {other} is not defined"),
                }
            }
            (other, _) => panic!("the meaning of {other} is not defined"),
        }
    }
}
