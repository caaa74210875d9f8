//! What structures hold: a queue's elements and a map's keys are words, a map adds integers only,
//! and it returns no copies of values that own something. What a list copies is plain.

use atomseq::local::{Map, Queue};
use atomseq::{nonblocking, percpu};

fn queue_of_many_words(_: &Queue<[u64; 2], 4>) {}

fn map_key_of_many_words(_: &Map<String, usize, 4>) {}

fn map_adds_no_integers(map: &Map<usize, Box<u8>, 4>) {
    let _ = map.add(1, Box::new(2));
}

fn map_copies_values_that_own(map: &Map<usize, Box<u8>, 4>) {
    let _ = map.get(1);
}

fn stack_of_strings(stack: &percpu::Stack<String>) {
    let _ = stack.push(String::new());
}

fn list_of_strings(_: &nonblocking::List<u64, String>) {}

fn main() {}
