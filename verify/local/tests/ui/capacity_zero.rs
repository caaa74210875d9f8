//! Room for nothing.

use atomseq::local::{Map, Queue, Ring, Stack};

fn main() {
    std::mem::forget(Stack::<usize, 0>::new());
    std::mem::forget(Map::<usize, usize, 0>::new());
    std::mem::forget(Queue::<usize, 0>::new());
    std::mem::forget(Ring::<usize, 0>::new());
}
