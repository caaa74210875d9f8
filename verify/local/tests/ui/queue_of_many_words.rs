//! A queue's elements are words; a `Ring` takes any size.

use atomseq::local::Queue;

fn takes(_: &Queue<[u64; 2], 4>) {}

fn main() {}
