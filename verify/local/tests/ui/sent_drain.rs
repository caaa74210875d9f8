//! An iterator is the structure's, and stays on its thread.

use atomseq::local::Queue;

fn main() {
    let queue: Queue<u32, 4> = Queue::new();
    let drain = queue.drain();
    std::thread::scope(|scope| {
        scope.spawn(move || drain.count());
    });
}
