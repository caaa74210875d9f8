//! Two threads at once.

use atomseq::local::Stack;

fn main() {
    let stack: Stack<usize, 4> = Stack::new();
    std::thread::scope(|scope| {
        scope.spawn(|| stack.push(1));
    });
}
