//! The models: the threads' actions, and the invariants at the end.

use std::sync::Arc;

use shuttle::rand::Rng;
use verify_model::controls::shuttle_thread as thread;

use crate::machine::{anew, as_thread, fork, mark_alive, mark_dead};
use crate::sync::{AtomicU64, Ordering};
use crate::{Library, machine};

/// Returns all models by name.
pub fn all<L: Library>() -> [(&'static str, fn()); 9] {
    [
        ("one that locks among two that do not", count::<L>),
        ("a reader of what is locked", read::<L>),
        ("three of which one succeeds", one_of::<L>),
        ("by the version", since::<L>),
        ("one that is stopped", stopped::<L>),
        ("one that a fork leaves behind", forked::<L>),
        ("words that live as long as a call", short_lived::<L>),
        ("a stack", stack::<L>),
        ("a stack that a fork leaves behind", forked_stack::<L>),
    ]
}

/// A lock and two words.
struct Pair<L: Library> {
    line: L::Line,
    words: [AtomicU64; 2],
}

impl<L: Library> Pair<L> {
    fn new() -> Arc<Pair<L>> {
        anew();
        let pair = Arc::new(Pair {
            line: L::line(),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        });
        mark_alive(&*pair);
        pair
    }

    fn words(&self) -> [&AtomicU64; 2] {
        [&self.words[0], &self.words[1]]
    }

    /// Returns both words at one time, which are always equal, and the version of that time.
    fn read(&self) -> (u64, u64) {
        loop {
            let version = L::begin(&self.line);
            let [first, second] = self.words().map(|word| word.load(Ordering::Relaxed));
            if L::is_still(&self.line, version) {
                assert_eq!(first, second, "a half of an exchange was seen");
                return (first, version);
            }
        }
    }

    /// Adds one to both words, comparing the words or the version.
    fn add(&self, by_version: bool) {
        loop {
            let (old, version) = self.read();
            let new = [old + 1; 2];
            let done = match by_version {
                true => L::since(&self.line, version, self.words(), new),
                false => L::exchange(&self.line, self.words(), [old; 2], new),
            };
            if done {
                return;
            }
        }
    }
}

fn draw(range: std::ops::Range<usize>) -> usize {
    shuttle::rand::thread_rng().gen_range(range)
}

/// Starts a thread that can run sections or not.
fn spawn<R: Send + 'static>(
    has_sections: bool,
    work: impl FnOnce() -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    thread::spawn(move || as_thread(has_sections, None, work).expect("it is not stopped"))
}

fn count<L: Library>() {
    let pair = Pair::<L>::new();
    let others = [true, false].map(|has_sections| {
        let pair = pair.clone();
        spawn(has_sections, move || {
            pair.add(false);
            pair.add(has_sections);
        })
    });
    (0..2).for_each(|_| pair.add(false));
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(pair.read().0, 6);
}

fn read<L: Library>() {
    let pair = Pair::<L>::new();
    let writer = {
        let pair = pair.clone();
        spawn(false, move || (0..3).for_each(|_| pair.add(false)))
    };
    let mut last = 0;
    for _ in 0..3 {
        let (now, _) = pair.read();
        assert!(last <= now && now <= 3, "{last}, {now}");
        last = now;
    }
    writer.join().unwrap();
    assert_eq!(pair.read().0, 3);
}

fn one_of<L: Library>() {
    let pair = Pair::<L>::new();
    let exchange = |pair: &Pair<L>, new| L::exchange(&pair.line, pair.words(), [0, 0], [new; 2]);
    let others = [(true, 1), (false, 2)].map(|(has_sections, new)| {
        let pair = pair.clone();
        spawn(has_sections, move || {
            // Neither of these words has the expected value.
            assert!(!L::exchange(&pair.line, pair.words(), [7, 0], [9; 2]));
            assert!(!L::exchange(&pair.line, pair.words(), [0, 7], [9; 2]));
            exchange(&pair, new)
        })
    });
    let third = as_thread(false, None, || exchange(&pair, 3)).expect("it is not stopped");
    let [first, second] = others.map(|other| other.join().unwrap());
    let succeeded = [first, second, third].map(u64::from);
    assert_eq!(succeeded.iter().sum::<u64>(), 1, "{succeeded:?}");
    let right: u64 = succeeded.iter().zip(1..).map(|(one, new)| one * new).sum();
    assert_eq!(pair.read().0, right);
}

fn since<L: Library>() {
    let pair = Pair::<L>::new();
    let others = [true, false].map(|has_sections| {
        let pair = pair.clone();
        spawn(has_sections, move || (0..2).for_each(|_| pair.add(true)))
    });
    pair.add(false);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(pair.read().0, 5);
}

/// A thread that runs sections is stopped somewhere indefinitely; one of each kind continues.
fn stopped<L: Library>() {
    let pair = Pair::<L>::new();
    let stopped = {
        let (pair, steps) = (pair.clone(), draw(0..40));
        thread::spawn(move || {
            as_thread(true, Some(steps), || {
                L::exchange(&pair.line, pair.words(), [0; 2], [1; 2])
            })
        })
    };
    let locking = {
        let pair = pair.clone();
        spawn(false, move || pair.add(true))
    };
    pair.add(false);
    let outcome = stopped.join().unwrap();
    locking.join().unwrap();
    finish(&pair, 2, outcome);
}

/// Checks the sum after `added` additions, and one more that was perhaps made, as its outcome says
/// if it is known.
fn finish<L: Library>(pair: &Pair<L>, added: u64, outcome: Option<bool>) {
    let (now, _) = pair.read();
    let all = match outcome {
        Some(done) => added + u64::from(done)..=added + u64::from(done),
        None => added..=added + 1,
    };
    assert!(all.contains(&now), "{now} instead of {all:?}");
}

/// A thread that locks is stopped where it is when its process forks; the child has others.
fn forked<L: Library>() {
    let pair = Pair::<L>::new();
    let (left, steps) = (pair.clone(), draw(0..30));
    let left = thread::spawn(move || {
        as_thread(false, Some(steps), || {
            L::exchange(&left.line, left.words(), [0; 2], [1; 2])
        })
    });
    let outcome = left.join().unwrap();
    fork();
    let others = [true, false].map(|has_sections| {
        let pair = pair.clone();
        spawn(has_sections, move || pair.add(has_sections))
    });
    for other in others {
        other.join().unwrap();
    }
    finish(&pair, 2, outcome);
}

/// A word that dies when the call returns, and that no other thread rolls back after that.
fn short_lived<L: Library>() {
    let pair = Pair::<L>::new();
    let others = [true, false].map(|has_sections| {
        let pair = pair.clone();
        spawn(has_sections, move || {
            pair.read();
            pair.read();
        })
    });
    for _ in 0..2 {
        let word = Box::new(AtomicU64::new(5));
        mark_alive(&*word);
        let version = L::begin(&pair.line);
        let old = pair.words[0].load(Ordering::Relaxed);
        // Both values are the old ones, so that readers notice nothing.
        let done = L::since(&pair.line, version, [&word, &pair.words[0]], [6, old]);
        let held = word.load(Ordering::Relaxed);
        assert_eq!(held, 5 + u64::from(done));
        mark_dead(&*word);
    }
    for other in others {
        other.join().unwrap();
    }
}

/// A stack's memory.
#[derive(Default)]
pub struct Cells([AtomicU64; 2]);

impl Cells {
    pub fn address(&self) -> usize {
        self.0[0].address()
    }

    /// Returns the capacity in bytes.
    pub fn room(&self) -> u64 {
        size_of::<Cells>() as u64
    }

    pub fn at(&self, offset: u64) -> &AtomicU64 {
        &self.0[offset as usize / 8]
    }
}

/// A stack of two words.
struct Stack<L: Library> {
    shadow: L::Shadow,
    cells: Cells,
}

impl<L: Library> Stack<L> {
    fn new() -> Arc<Stack<L>> {
        anew();
        let stack = Arc::new(Stack {
            shadow: L::shadow(),
            cells: Cells::default(),
        });
        mark_alive(&*stack);
        stack
    }

    fn push(&self, word: u64) -> bool {
        L::push(&self.shadow, &self.cells, word)
    }

    fn pop(&self) -> Option<u64> {
        L::pop(&self.shadow, &self.cells)
    }

    /// Pops all words, the last first.
    fn rest(&self) -> Vec<u64> {
        let rest: Vec<u64> = std::iter::from_fn(|| self.pop()).collect();
        assert_eq!(L::height(&self.shadow), 0);
        rest
    }
}

/// Every pushed word is popped once.
fn stack<L: Library>() {
    let stack = Stack::<L>::new();
    let others = [(true, 10), (false, 20)].map(|(has_sections, word)| {
        let stack = stack.clone();
        spawn(has_sections, move || {
            let mut went_in = Vec::new();
            let mut came_out = Vec::new();
            for word in [word, word + 1] {
                went_in.extend(stack.push(word).then_some(word));
                came_out.extend(stack.pop());
            }
            (went_in, came_out)
        })
    });
    let mut went_in: Vec<u64> = stack.push(1).then_some(1).into_iter().collect();
    assert!(L::height(&stack.shadow) <= stack.cells.room());
    let mut came_out = Vec::new();
    for other in others {
        let (more, out) = other.join().unwrap();
        went_in.extend(more);
        came_out.extend(out);
    }
    came_out.extend(stack.rest());
    went_in.sort_unstable();
    came_out.sort_unstable();
    assert_eq!(went_in, came_out, "lost or doubled");
}

/// A thread that locks is left behind in the middle of a push.
fn forked_stack<L: Library>() {
    let stack = Stack::<L>::new();
    assert!(stack.push(1));
    let (left, steps) = (stack.clone(), draw(0..20));
    let left = thread::spawn(move || as_thread(false, Some(steps), || left.push(2)));
    let outcome = left.join().unwrap();
    fork();
    let other = {
        let stack = stack.clone();
        spawn(false, move || stack.pop())
    };
    let mut came_out: Vec<u64> = stack.pop().into_iter().collect();
    came_out.extend(other.join().unwrap());
    came_out.extend(stack.rest());
    came_out.sort_unstable();
    let right: &[&[u64]] = match outcome {
        Some(done) => {
            assert!(done, "there is room");
            &[&[1, 2]]
        }
        None => &[&[1], &[1, 2]],
    };
    assert!(right.contains(&&*came_out), "{came_out:?}");
    assert!(machine::generation() == 1);
}
