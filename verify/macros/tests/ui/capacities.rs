//! Capacities: room for nothing, and positions that do not wrap around by masking.

use atomseq::local::{Map, Queue, Ring, Stack};

fn main() {
    std::mem::forget(Stack::<usize, 0>::new());
    std::mem::forget(Map::<usize, usize, 0>::new());
    std::mem::forget(Queue::<usize, 0>::new());
    std::mem::forget(Ring::<usize, 0>::new());
    std::mem::forget(Queue::<usize, 100>::new());
    std::mem::forget(Ring::<usize, 3>::new());
}
