//! The structures of `atomseq::local`, which a thread shares with its handlers, and the books that
//! each of them keeps.

use std::cell::Cell;

use atomseq::local::{Counter, Map, Queue, Ring, Stack};

use super::arena::{ACTORS, THREAD};
use atomseq_stress::engine::mix as mark;

/// How many keys are used: fewer than there is room for, and both that have places of their own.
const KEYS: usize = 40;

/// A value in three words that fit together only if they were copied at one time.
type Whole = [usize; 3];

fn whole(value: usize) -> Whole {
    [value, mark(value as u64) as usize, !value]
}

/// Values that went one way: how many, and the sum of their marks.
#[derive(Debug, Default)]
struct Account {
    count: Cell<u64>,
    marks: Cell<u64>,
}

impl Account {
    fn add(&self, value: usize) {
        self.count.set(self.count.get() + 1);
        self.marks
            .set(self.marks.get().wrapping_add(mark(value as u64)));
    }
}

/// Values in and out of one container.
#[derive(Debug, Default)]
struct Traffic {
    gone_in: Account,
    come_out: Account,
}

/// What one actor has done; nobody else writes to it.
#[derive(Debug, Default)]
struct Book {
    values: Cell<usize>,
    added: Cell<u64>,
    drained: Cell<u64>,
    mapped: Cell<u64>,
    removed: Cell<u64>,
    /// Stack, queue and ring.
    traffic: [Traffic; 3],
}

/// One of each, small enough to be full at times.
#[derive(Debug, Default)]
pub struct Structures {
    counter: Counter,
    stack: Stack<usize, 24>,
    queue: Queue<usize, 32>,
    ring: Ring<Whole, 16>,
    map: Map<usize, u64, 64>,
    books: [Book; ACTORS],
}

fn grow(cell: &Cell<u64>, amount: u64) {
    cell.set(cell.get() + amount);
}

impl Structures {
    /// One operation of an actor's choice; `false` if what it found cannot be.
    pub fn operate(&self, actor: usize, choice: u64) -> bool {
        let book = &self.books[actor];
        let [stack, queue, ring] = &book.traffic;
        let value = book.values.get() * ACTORS + actor;
        let key = match (choice >> 8) as usize % KEYS {
            0 => usize::MAX,
            key => key - 1,
        };
        let put = |traffic: &Traffic, is_in: bool| {
            book.values.set(book.values.get() + 1);
            if is_in {
                traffic.gone_in.add(value);
            }
        };
        let take = |traffic: &Traffic, taken: Option<usize>| {
            if let Some(value) = taken {
                traffic.come_out.add(value);
            }
        };
        match choice % 10 {
            0 => {
                self.counter.add(choice >> 56);
                grow(&book.added, choice >> 56);
            }
            1 => grow(&book.drained, self.counter.take()),
            2 => put(stack, self.stack.push(value).is_ok()),
            3 => take(stack, self.stack.pop()),
            4 => put(queue, self.queue.push(value).is_ok()),
            5 => take(queue, self.queue.pop()),
            6 => put(ring, self.ring.push(whole(value)).is_ok()),
            7 => {
                let Some(element) = self.ring.pop() else {
                    return true;
                };
                take(ring, Some(element[0]));
                return element == whole(element[0]);
            }
            8 => {
                let is_in = self.map.add(key, 1).is_ok();
                grow(&book.mapped, 1);
                return is_in;
            }
            _ => grow(&book.removed, self.map.remove(key).unwrap_or(0)),
        }
        true
    }

    /// Takes everything out, on the thread's account; returns how much does not add up.
    pub fn settle(&self) -> u64 {
        let thread = &self.books[THREAD];
        let [stack, queue, ring] = &thread.traffic;
        self.stack
            .drain()
            .for_each(|value| stack.come_out.add(value));
        self.queue
            .drain()
            .for_each(|value| queue.come_out.add(value));
        self.ring
            .drain()
            .for_each(|element| ring.come_out.add(element[0]));
        grow(&thread.drained, self.counter.take());
        grow(
            &thread.removed,
            self.map.drain().map(|(_, amount)| amount).sum(),
        );
        let total = |of: &dyn Fn(&Book) -> u64| {
            let words = self.books.iter().map(of);
            words.fold(0, u64::wrapping_add)
        };
        let differ = |gone_in: &dyn Fn(&Book) -> u64, come_out: &dyn Fn(&Book) -> u64| {
            u64::from(total(gone_in) != total(come_out))
        };
        let mut wrong = u64::from(!self.map.is_empty());
        wrong += differ(&|book| book.added.get(), &|book| book.drained.get());
        wrong += differ(&|book| book.mapped.get(), &|book| book.removed.get());
        for kind in 0..thread.traffic.len() {
            let gone_in = |book: &Book| book.traffic[kind].gone_in.marks.get();
            wrong += differ(&gone_in, &|book| book.traffic[kind].come_out.marks.get());
            let gone_in = |book: &Book| book.traffic[kind].gone_in.count.get();
            wrong += differ(&gone_in, &|book| book.traffic[kind].come_out.count.get());
        }
        wrong
    }
}
