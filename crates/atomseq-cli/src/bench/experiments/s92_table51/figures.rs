//! S92's figures 5.4 to 5.6 as they are printed, by `dcas::Domain` for CAS2: with the corrections
//! that atomseq's documentation describes. With `RETRY`, the first attempt of each operation comes
//! with a version that is over: S92's *interfering memory reference between the initial read and
//! the Compare-&-Swap*.

use std::array;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use atomseq::dcas::{Cell, Change, Covered, Domain, Version};

use super::{Attempts, CAPACITY, Pair, plain};

/// As a length.
const LENGTH: usize = CAPACITY as usize;

/// Words that change two at a time, and a version of them that is over.
struct Figure<T: Covered> {
    domain: Box<Domain<T>>,
    over: Version,
}

impl<T: Covered> Figure<T> {
    /// With these words, of which the first one is 0.
    fn new(words: T, first: fn(&T) -> &Cell) -> Self {
        let domain = Box::new(Domain::new(words));
        let over = domain.version();
        // Only the version changes, and no other thread has the domain yet.
        while domain
            .compare_exchange(Change::of(first(&domain), 0, 0))
            .is_err()
        {}
        Self { domain, over }
    }

    /// Tries until it works: `attempt` is given what `look` has seen, and says what is to be
    /// stored, if anything, and what is returned.
    #[inline(always)]
    fn change<'w, const RETRY: bool, const N: usize, R>(
        &self,
        look: [&Cell; N],
        mut attempt: impl FnMut([u64; N]) -> Option<([(&'w Cell, u64); 2], R)>,
    ) -> Option<(R, Attempts)> {
        let mut attempts = 0;
        loop {
            let (seen, version) = self.domain.snapshot(look);
            let ([first, second], result) = attempt(seen)?;
            let version = match RETRY && attempts == 0 {
                true => self.over,
                false => version,
            };
            attempts += 1;
            if self.domain.store_pair_if(version, first, second).is_ok() {
                return Some((result, Attempts(attempts)));
            }
        }
    }
}

impl<T: Covered> Deref for Figure<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.domain
    }
}

/// So many words of value 0.
fn words<const N: usize>() -> [Cell; N] {
    array::from_fn(|_| Cell::new(0))
}

/// What an operation that did nothing returns.
const REFUSED: (u64, Attempts) = (0, Attempts(0));

/// Figure 5.5.
pub struct Stack<const RETRY: bool>(Figure<StackWords>);

#[derive(Covered)]
struct StackWords {
    height: Cell,
    cells: [Cell; LENGTH],
}

impl<const RETRY: bool> Default for Stack<RETRY> {
    fn default() -> Self {
        let [height] = words();
        let cells = words();
        Self(Figure::new(StackWords { height, cells }, |words| {
            &words.height
        }))
    }
}

impl<const RETRY: bool> Pair for Stack<RETRY> {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        let StackWords { height, cells } = &*self.0;
        let put = self.0.change::<RETRY, _, _>([height], |[at]| {
            let cell = cells.get(at as usize)?;
            Some(([(cell, value), (height, at + 1)], 0))
        });
        put.unwrap_or(REFUSED).1
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let StackWords { height, cells } = &*self.0;
        let taken = self.0.change::<RETRY, _, _>([height], |[at]| {
            let cell = cells.get((at as usize).wrapping_sub(1))?;
            // Counts if nothing has changed since the height was looked at.
            let value = self.0.domain.load(cell);
            Some(([(height, at - 1), (cell, value)], value))
        });
        taken.unwrap_or(REFUSED)
    }
}

/// Figure 5.6: one cell stays empty.
pub struct Queue<const RETRY: bool>(Figure<QueueWords>);

#[derive(Covered)]
struct QueueWords {
    head: Cell,
    tail: Cell,
    cells: [Cell; LENGTH + 1],
}

impl<const RETRY: bool> Default for Queue<RETRY> {
    fn default() -> Self {
        let [head, tail] = words();
        let cells = words();
        Self(Figure::new(QueueWords { head, tail, cells }, |words| {
            &words.head
        }))
    }
}

/// The next place.
#[inline(always)]
fn after(place: u64) -> u64 {
    match place {
        CAPACITY.. => 0,
        _ => place + 1,
    }
}

impl<const RETRY: bool> Pair for Queue<RETRY> {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        let QueueWords { head, tail, cells } = &*self.0;
        let put = self.0.change::<RETRY, _, _>([head, tail], |[at, oldest]| {
            let next = after(at);
            let stores = [(&cells[at as usize], value), (head, next)];
            (next != oldest).then_some((stores, 0))
        });
        put.unwrap_or(REFUSED).1
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let QueueWords { head, tail, cells } = &*self.0;
        let taken = self.0.change::<RETRY, _, _>([head, tail], |[newest, at]| {
            let cell = &cells[at as usize];
            // As for stacks.
            let value = self.0.domain.load(cell);
            (newest != at).then_some(([(tail, after(at)), (cell, value)], value))
        });
        taken.unwrap_or(REFUSED)
    }
}

/// Figure 5.4. A link is a node's number plus 1, or 0; an inserter owns a node.
pub struct List<const RETRY: bool> {
    figure: Figure<ListWords>,
    values: [AtomicU64; LENGTH],
    in_hand: plain::Stack,
}

#[derive(Covered)]
struct ListWords {
    first: Cell,
    next: [Cell; LENGTH],
}

impl<const RETRY: bool> Default for List<RETRY> {
    fn default() -> Self {
        let [first] = words();
        let next = words();
        let in_hand = plain::Stack::default();
        for link in 1..=CAPACITY {
            in_hand.put(link);
        }
        Self {
            figure: Figure::new(ListWords { first, next }, |words| &words.first),
            values: array::from_fn(|_| AtomicU64::new(0)),
            in_hand,
        }
    }
}

impl<const RETRY: bool> Pair for List<RETRY> {
    #[inline(always)]
    fn put(&self, value: u64) -> Attempts {
        let ListWords { first, next } = &*self.figure;
        let (link, Attempts(1)) = self.in_hand.take() else {
            return REFUSED.1;
        };
        let node = (link - 1) as usize;
        self.values[node].store(value, Relaxed);
        let put = self.figure.change::<RETRY, _, _>([first], |[old]| {
            Some(([(first, link), (&next[node], old)], 0))
        });
        put.unwrap_or(REFUSED).1
    }

    #[inline(always)]
    fn take(&self) -> (u64, Attempts) {
        let ListWords { first, next } = &*self.figure;
        let taken = self.figure.change::<RETRY, _, _>([first], |[link]| {
            let node = next.get((link as usize).wrapping_sub(1))?;
            let second = self.figure.domain.load(node);
            Some(([(first, second), (node, 0)], link))
        });
        let Some((link, attempts)) = taken else {
            return REFUSED;
        };
        self.in_hand.put(link);
        (self.values[(link - 1) as usize].load(Relaxed), attempts)
    }
}
