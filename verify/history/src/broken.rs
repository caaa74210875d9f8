//! Structures that are wrong on purpose, each in one way: a checker that accepts one of them is of
//! no use.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use atomseq::dcas::{Cell, Change, Domain, Mechanism};
use atomseq::percpu::Count;
use fastrand::Rng;

use crate::record::{Subject, lane_of};
use crate::structures::ends::{self, Ends};
use crate::structures::pages::{self, OF_LEAF, PAGES, Pages};
use crate::structures::registers::{self, Registers, WORDS};

/// A stack of three in one word, that pushes by a compare-and-swap, and pops by a load and a store.
///
/// ```text
/// 63 … 60 how many | 59 … 40 | 39 … 20 | 19 … 0 the lowest
/// ```
pub struct CarelessStack(AtomicU64);

const DEPTH: u64 = 3;
const BITS: u64 = 20;
const COUNT: u64 = 60;

impl CarelessStack {
    /// Makes an empty one.
    pub fn fresh() -> (CarelessStack, Ends) {
        (
            CarelessStack(AtomicU64::new(0)),
            Ends::empty(DEPTH as usize),
        )
    }
}

fn push_or_take(rng: &mut Rng, value: u64) -> ends::Call {
    if rng.bool() {
        ends::Call::PutHead(value)
    } else {
        ends::Call::Take
    }
}

fn take_all(before: Option<&ends::Answer>) -> Option<ends::Call> {
    (before != Some(&ends::Answer::Value(None))).then_some(ends::Call::Take)
}

impl Subject for CarelessStack {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<ends::Call> {
        Some(push_or_take(rng, value))
    }

    fn operate(&self, call: &ends::Call, (): &mut ()) -> ends::Answer {
        match *call {
            ends::Call::PutHead(value) => loop {
                let stack = self.0.load(Ordering::SeqCst);
                let depth = stack >> COUNT;
                if depth == DEPTH {
                    return ends::Answer::Put(false);
                }
                let pushed = stack + (1 << COUNT) + (value << (depth * BITS));
                if self
                    .0
                    .compare_exchange(stack, pushed, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
                {
                    return ends::Answer::Put(true);
                }
            },
            _ => {
                let stack = self.0.load(Ordering::SeqCst);
                let Some(depth) = (stack >> COUNT).checked_sub(1) else {
                    return ends::Answer::Value(None);
                };
                let value = stack >> (depth * BITS) & ((1 << BITS) - 1);
                self.0.store(
                    stack - (1 << COUNT) - (value << (depth * BITS)),
                    Ordering::SeqCst,
                );
                ends::Answer::Value(Some(value))
            }
        }
    }

    fn last(&self, before: Option<&ends::Answer>) -> Option<ends::Call> {
        take_all(before)
    }
}

/// More nodes than a history has calls. The lowest free node is taken, so nodes are reused soon.
const NODES: usize = 24;

#[derive(Default)]
struct Node {
    next: AtomicUsize,
    value: AtomicU64,
    taken: AtomicBool,
}

/// A linked stack whose links are compared and swapped without a version: it does not notice that a
/// node was removed and has come back.
pub struct Unversioned {
    /// The node on top, its number plus one.
    top: AtomicUsize,
    nodes: [Node; NODES],
}

impl Unversioned {
    /// Makes an empty one.
    pub fn fresh() -> (Unversioned, Ends) {
        let nodes = std::array::from_fn(|_| Node::default());
        (
            Unversioned {
                top: AtomicUsize::new(0),
                nodes,
            },
            Ends::empty(NODES),
        )
    }

    fn allocate(&self) -> usize {
        let free = (0..NODES).find(|node| !self.nodes[*node].taken.swap(true, Ordering::SeqCst));
        free.expect("there is a node for each call")
    }
}

impl Subject for Unversioned {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<ends::Call> {
        Some(push_or_take(rng, value))
    }

    fn operate(&self, call: &ends::Call, (): &mut ()) -> ends::Answer {
        match *call {
            ends::Call::PutHead(value) => {
                let node = self.allocate();
                self.nodes[node].value.store(value, Ordering::SeqCst);
                loop {
                    let top = self.top.load(Ordering::SeqCst);
                    self.nodes[node].next.store(top, Ordering::SeqCst);
                    if self
                        .top
                        .compare_exchange(top, node + 1, Ordering::SeqCst, Ordering::SeqCst)
                        .is_ok()
                    {
                        return ends::Answer::Put(true);
                    }
                }
            }
            _ => loop {
                let top = self.top.load(Ordering::SeqCst);
                let Some(node) = top.checked_sub(1) else {
                    return ends::Answer::Value(None);
                };
                let next = self.nodes[node].next.load(Ordering::SeqCst);
                if self
                    .top
                    .compare_exchange(top, next, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
                {
                    let value = self.nodes[node].value.load(Ordering::SeqCst);
                    self.nodes[node].taken.store(false, Ordering::SeqCst);
                    return ends::Answer::Value(Some(value));
                }
            },
        }
    }

    fn last(&self, before: Option<&ends::Answer>) -> Option<ends::Call> {
        take_all(before)
    }
}

/// A domain whose snapshot loads the words one after the other.
pub struct Torn(Domain<[Cell; WORDS]>);

impl Torn {
    /// Makes one of zeros.
    pub fn fresh(mechanism: Mechanism) -> (Torn, Registers) {
        let words = Domain::forced(std::array::from_fn(|_| Cell::new(0)), mechanism);
        (Torn(words), Registers::zeros(0, true))
    }
}

impl Subject for Torn {
    type Model = Registers;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), _value: u64) -> Option<registers::Call> {
        Some(match rng.u32(..3) {
            0 => registers::Call::Words,
            _ => registers::Call::Add(rng.usize(..WORDS), 1),
        })
    }

    fn operate(&self, call: &registers::Call, (): &mut ()) -> registers::Answer {
        match *call {
            registers::Call::Add(word, more) => registers::Answer::Value(
                self.0
                    .fetch_update(&self.0[word], |value| Some(value + more))
                    .expect("a value"),
            ),
            _ => registers::Answer::Words(std::array::from_fn(|word| self.0.load(&self.0[word]))),
        }
    }

    fn last(&self, before: Option<&registers::Answer>) -> Option<registers::Call> {
        before.is_none().then_some(registers::Call::Words)
    }
}

/// A domain that compares the words that it does not change before the exchange, not as a part of
/// it.
pub struct Beforehand(Domain<[Cell; WORDS]>);

impl Beforehand {
    /// Makes one of zeros.
    pub fn fresh(mechanism: Mechanism) -> (Beforehand, Registers) {
        let words = Domain::forced(std::array::from_fn(|_| Cell::new(0)), mechanism);
        (Beforehand(words), Registers::zeros(0, true))
    }
}

impl Subject for Beforehand {
    type Model = Registers;
    type Memory = ();

    /// Either increments two words together if the third still has its first value, or increments
    /// the third alone.
    fn choose(&self, rng: &mut Rng, (): &(), _value: u64) -> Option<registers::Call> {
        Some(match rng.u32(..3) {
            0 => registers::Call::Words,
            1 => registers::Call::Add(0, 1),
            _ => {
                let new = rng.u64(..2);
                registers::Call::ExchangeAll([(0, 0, 0), (1, 0, new), (2, 0, new)])
            }
        })
    }

    fn operate(&self, call: &registers::Call, (): &mut ()) -> registers::Answer {
        match *call {
            registers::Call::Add(word, more) => registers::Answer::Value(
                self.0
                    .fetch_update(&self.0[word], |value| Some(value + more))
                    .expect("a value"),
            ),
            registers::Call::ExchangeAll([(compared, value, _), first, second]) => {
                let change = |(word, old, new): (usize, u64, u64)| {
                    let word: &Cell = &self.0[word];
                    Change::of(word, old, new)
                };
                let is_so = self.0.load(&self.0[compared]) == value;
                let done = is_so
                    && self
                        .0
                        .compare_exchange_pair(change(first), change(second))
                        .is_ok();
                registers::Answer::Done(done)
            }
            _ => registers::Answer::Words(self.0.load_all(self.0.each_ref())),
        }
    }

    fn last(&self, before: Option<&registers::Answer>) -> Option<registers::Call> {
        before.is_none().then_some(registers::Call::Words)
    }
}

/// Takes a counter by a reading and a reset: what is added between the two is lost.
pub fn read_and_reset(count: &Count) -> u64 {
    let sum = count.sum();
    count.take();
    sum
}

/// A queue whose calls never return.
pub struct Endless;

impl Subject for Endless {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, _rng: &mut Rng, (): &(), _value: u64) -> Option<ends::Call> {
        Some(ends::Call::Take)
    }

    fn operate(&self, _call: &ends::Call, (): &mut ()) -> ends::Answer {
        loop {
            std::hint::spin_loop();
        }
    }

    fn last(&self, _before: Option<&ends::Answer>) -> Option<ends::Call> {
        None
    }
}

/// A queue in which one lane panics.
pub struct Panicking {
    /// The lane that panics.
    pub lane: usize,
}

impl Subject for Panicking {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, _rng: &mut Rng, (): &(), value: u64) -> Option<ends::Call> {
        Some(ends::Call::PutHead(value))
    }

    fn operate(&self, call: &ends::Call, (): &mut ()) -> ends::Answer {
        match *call {
            ends::Call::PutHead(value) if lane_of(value) == self.lane => {
                panic!("lane {} cannot go on", self.lane)
            }
            // It is always full, after a spin that handlers interrupt.
            _ => {
                (0..1_000).for_each(|_| std::hint::spin_loop());
                ends::Answer::Put(false)
            }
        }
    }

    fn last(&self, _before: Option<&ends::Answer>) -> Option<ends::Call> {
        None
    }
}

/// A queue whose calls sleep until another thread wakes them, which none does.
pub struct Asleep;

impl Subject for Asleep {
    type Model = Ends;
    type Memory = ();

    fn choose(&self, _rng: &mut Rng, (): &(), _value: u64) -> Option<ends::Call> {
        Some(ends::Call::Take)
    }

    fn operate(&self, _call: &ends::Call, (): &mut ()) -> ends::Answer {
        loop {
            thread::park();
        }
    }

    fn last(&self, _before: Option<&ends::Answer>) -> Option<ends::Call> {
        None
    }
}

/// A page map of one leaf, whose entries change without a look at the link that leads to it: an
/// entry is stored into a leaf that was unloaded in between, and is lost.
pub struct Orphaned {
    link: AtomicUsize,
    leaves: [[AtomicU64; OF_LEAF]; NODES],
}

impl Orphaned {
    /// Makes an empty one.
    pub fn fresh() -> (Orphaned, Pages) {
        let leaf = |_| std::array::from_fn(|_| AtomicU64::new(0));
        let map = Orphaned {
            link: AtomicUsize::new(0),
            leaves: std::array::from_fn(leaf),
        };
        (map, Pages::default())
    }

    fn entry(&self, page: u64) -> &AtomicU64 {
        let leaf = self.link.load(Ordering::SeqCst);
        &self.leaves[leaf % NODES][page as usize]
    }
}

/// Returns an entry, of which 0 is none.
fn there(entry: u64) -> Option<u64> {
    Some(entry).filter(|entry| *entry != 0)
}

impl Subject for Orphaned {
    type Model = Pages;
    type Memory = ();

    fn choose(&self, rng: &mut Rng, (): &(), value: u64) -> Option<pages::Call> {
        let call = pages::choose(rng, OF_LEAF, value);
        Some(match call {
            pages::Call::Update(page, _) | pages::Call::Look(page) => pages::Call::Find(page),
            other => other,
        })
    }

    fn operate(&self, call: &pages::Call, (): &mut ()) -> pages::Answer {
        use pages::Call::{Insert, Remove, Unload, UnloadAll};
        let swap = |page, value| self.entry(page).swap(value, Ordering::SeqCst);
        match *call {
            Insert(page, value) => pages::Answer::Entry(there(swap(page, value))),
            Remove(page) => pages::Answer::Entry(there(swap(page, 0))),
            // A leaf is used once.
            Unload(_) | UnloadAll => {
                let leaf = &self.leaves[self.link.fetch_add(1, Ordering::SeqCst) % NODES];
                let mut entries = [None; PAGES.len()];
                for (entry, word) in entries.iter_mut().zip(leaf) {
                    *entry = there(word.load(Ordering::SeqCst));
                }
                pages::Answer::Entries(entries)
            }
            pages::Call::Find(page) | pages::Call::Update(page, _) | pages::Call::Look(page) => {
                pages::Answer::Entry(there(self.entry(page).load(Ordering::SeqCst)))
            }
        }
    }

    fn last(&self, before: Option<&pages::Answer>) -> Option<pages::Call> {
        before.is_none().then_some(pages::Call::UnloadAll)
    }
}
