//! A key is a word.

use atomseq::local::Map;

fn takes(_: &Map<String, usize, 4>) {}

fn main() {}
