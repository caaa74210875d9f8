//! A queue of one thread and its handlers, changed by sequences of several visible stores.
//!
//! ```text
//! first ──> node ──> node ──> 0         last is the address of the link to write next: that of the
//! last ───────────────^                 last node, or `first` if there is none
//! ```

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// Where a queue's last link is.
const LAST: usize = 8;

atomseq_papers::sequence! {
    /// Puts a node last, by three stores.
    pub unsafe fn append(queue: Word, node: Word) {
        store(node, 0);
        let link = load(queue + LAST);
        store(link, node);
        store(queue + LAST, node);
    }

    /// Takes the first node: an early return before any store, and one between two.
    pub unsafe fn remove(queue: Word) -> Option<Word> {
        let first = load(queue);
        if first == 0 { return None }
        let next = load(first);
        store(queue, next);
        if next != 0 { return Some(first) }
        store(queue + LAST, queue);
        Some(first)
    }
}

/// What is in a queue of up to four nodes, each a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The nodes in the queue, by number.
    order: [usize; 5],
    length: usize,
}

/// First, last, and four links.
static QUEUE: [AtomicUsize; 6] = [const { AtomicUsize::new(0) }; 6];

/// Returns the address of the queue.
pub fn queue() -> usize {
    QUEUE.as_ptr().expose_provenance()
}

/// Returns the address of a node, of which there are four.
pub fn node(number: usize) -> usize {
    queue() + 16 + 8 * number
}

/// Fills the queue with the first so many nodes.
pub fn fill(length: usize) {
    QUEUE.iter().for_each(|word| word.store(0, SeqCst));
    let mut link = 0;
    for number in 0..length {
        QUEUE[link].store(node(number), SeqCst);
        link = 2 + number;
    }
    let last = if link == 0 {
        queue()
    } else {
        queue() + 8 * link
    };
    QUEUE[1].store(last, SeqCst);
}

/// Returns what is in the queue; `None` if it is torn.
pub fn state() -> Option<State> {
    let mut state = State {
        order: [0; 5],
        length: 0,
    };
    let mut at = queue();
    loop {
        // SAFETY: one of the words above, as checked below.
        let next = unsafe { (at as *const usize).read_volatile() };
        if next == 0 {
            break;
        }
        let number = next.wrapping_sub(node(0)) / 8;
        if number >= 4 || state.length == 4 {
            return None;
        }
        state.order[state.length] = number + 1;
        state.length += 1;
        at = next;
    }
    (QUEUE[1].load(SeqCst) == at).then_some(state)
}
