//! What one thread and its handlers change together, and the records that show whether a change was
//! lost.
//!
//! ```text
//! sum ── add                      copies ── triple: three words that are always equal
//! list ─> node ─> node …          take, put: a node that no actor holds is in the list
//! front ─> node ─> … <─ last      append, advance: one actor's nodes leave in order
//! shielded ── plain stores with signals deferred: three words that are always equal
//! ```

use std::cell::Cell;
use std::ptr;

use super::sequences::{Forms, at};
use super::structures::Structures;

/// How many nodes each of list and queue has.
const NODES: usize = 12;
/// How many actors there are: the thread, and one handler a signal.
pub const ACTORS: usize = 4;
/// The thread's number among them.
pub const THREAD: usize = 0;

/// A link, and the holder of the node.
#[derive(Debug, Default)]
#[repr(C)]
struct Node {
    link: Cell<usize>,
    holder: Cell<usize>,
    /// The actor that appended it, and the number of that.
    ticket: Cell<usize>,
}

/// What one actor has done; only this actor writes it.
#[derive(Debug, Default)]
struct Record {
    operations: Cell<u64>,
    added: Cell<usize>,
    tripled: Cell<usize>,
    shielded: Cell<usize>,
    last_seen: Cell<usize>,
    tickets: Cell<usize>,
    /// The last ticket of each actor that it saw coming out.
    seen: [Cell<usize>; ACTORS],
    choice: Cell<u64>,
}

/// The shared words, and the records of all actors.
#[derive(Debug)]
pub struct Arena {
    /// The sum, and its draft.
    sum: [Cell<usize>; 2],
    copies: [Cell<usize>; 3],
    shielded: [Cell<usize>; 3],
    list: Cell<usize>,
    front: Cell<usize>,
    last: Cell<usize>,
    listed: [Node; NODES],
    queued: [Node; NODES],
    records: [Record; ACTORS],
    structures: Structures,
    wrong: Cell<u64>,
    lists: bool,
}

impl Arena {
    /// Returns an arena in its initial state. Without `lists`, actors only change numbers: a
    /// control may lose a number, but not a link.
    pub fn new(seed: u64, lists: bool) -> Box<Arena> {
        let arena = Box::new(Arena {
            sum: Default::default(),
            copies: Default::default(),
            shielded: Default::default(),
            list: Cell::default(),
            front: Cell::default(),
            last: Cell::default(),
            listed: Default::default(),
            queued: Default::default(),
            records: Default::default(),
            structures: Structures::default(),
            wrong: Cell::default(),
            lists,
        });
        for pair in arena.listed.windows(2) {
            pair[0].link.set(ptr::from_ref(&pair[1]) as usize);
        }
        arena.list.set(ptr::from_ref(&arena.listed[0]) as usize);
        arena.front.set(ptr::from_ref(&arena.queued[0]) as usize);
        arena.last.set(arena.front.get());
        for (node, holder) in arena
            .queued
            .iter()
            .zip([0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4])
        {
            // The first one is in the queue; the actors hold the others.
            node.holder.set(holder);
        }
        for (actor, record) in arena.records.iter().enumerate() {
            record
                .choice
                .set(seed.wrapping_mul(2 * actor as u64 + 1) | 1);
        }
        arena
    }

    fn check(&self, holds: bool) {
        if !holds {
            self.wrong.set(self.wrong.get() + 1);
        }
    }

    /// Makes one operation of an actor's choice, and the one that reverses it if there is one.
    #[inline(always)]
    pub fn operate<F: Forms>(&self, actor: usize) {
        let record = &self.records[actor];
        // Marsaglia's xorshift: a few instructions, no allocation, one state an actor.
        let mut choice = record.choice.get();
        choice ^= choice << 13;
        choice ^= choice >> 7;
        choice ^= choice << 17;
        record.choice.set(choice);
        let restarting = choice >> 40 & 1 == 0;
        let kinds = if self.lists { 12 } else { 6 };
        match (choice >> 32) as u32 % kinds {
            0..3 => self.add::<F>(record, choice as usize & 0xff, restarting),
            3..5 => self.triple::<F>(record),
            5 => self.shield(record, actor),
            6 => self.circulate::<F>(record, actor, choice, restarting),
            7 => self.queue::<F>(record, actor, restarting),
            _ => {
                self.check(self.structures.operate(actor, choice));
                Arena::count(record, 1);
            }
        }
    }

    fn count(record: &Record, operations: u64) {
        record.operations.set(record.operations.get() + operations);
    }

    #[inline(always)]
    fn add<F: Forms>(&self, record: &Record, amount: usize, restarting: bool) {
        // SAFETY: a word of this thread's arena.
        unsafe { F::add(at(&self.sum[0]), amount, restarting) };
        record.added.set(record.added.get().wrapping_add(amount));
        Arena::count(record, 1);
    }

    #[inline(always)]
    fn triple<F: Forms>(&self, record: &Record) {
        // SAFETY: three words of this thread's arena.
        let old = unsafe { F::triple(at(&self.copies[0]), 1) };
        self.check(old >= record.last_seen.get());
        record.last_seen.set(old + 1);
        record.tripled.set(record.tripled.get() + 1);
        Arena::count(record, 1);
    }

    /// Stores to one word after the other; the thread defers signals meanwhile.
    #[inline(always)]
    fn shield(&self, record: &Record, actor: usize) {
        let _masked = (actor == THREAD).then(atomseq::signal::mask);
        for word in &self.shielded {
            // Volatile: each word is stored separately.
            // SAFETY: a word of this thread's arena.
            unsafe {
                word.as_ptr()
                    .write_volatile(word.as_ptr().read_volatile() + 1)
            };
        }
        record.shielded.set(record.shielded.get() + 1);
        Arena::count(record, 1);
    }

    /// Takes up to three nodes from the list, and puts them back in another order.
    #[inline(always)]
    fn circulate<F: Forms>(&self, record: &Record, actor: usize, choice: u64, restarting: bool) {
        let mut nodes = [0; 3];
        let wanted = 1 + (choice >> 50) as usize % nodes.len();
        for node in &mut nodes[..wanted] {
            // SAFETY: the list of this thread's arena, whose nodes live as long.
            *node = unsafe { F::take(at(&self.list), restarting) };
            if let Some(node) = self.node(&self.listed, *node) {
                self.check(node.holder.replace(actor + 1) == 0);
            }
        }
        let taken = nodes.iter().filter(|node| **node != 0).count();
        for address in nodes {
            if let Some(node) = self.node(&self.listed, address) {
                self.check(node.holder.replace(0) == actor + 1);
                // SAFETY: the list of this thread's arena; this actor holds the node.
                unsafe { F::put(at(&self.list), address, !restarting) };
            }
        }
        Arena::count(record, (wanted + taken) as u64);
    }

    /// Appends a node that the actor holds to the queue, and takes the front one.
    #[inline(always)]
    fn queue<F: Forms>(&self, record: &Record, actor: usize, restarting: bool) {
        if let Some(node) = self
            .queued
            .iter()
            .find(|node| node.holder.get() == actor + 1)
        {
            node.link.set(0);
            record.tickets.set(record.tickets.get() + 1);
            node.ticket.set(record.tickets.get() * ACTORS + actor);
            node.holder.set(0);
            // SAFETY: the queue of this thread's arena; this actor held the node.
            unsafe { F::append(at(&self.last), ptr::from_ref(node) as usize) };
            Arena::count(record, 1);
        }
        // SAFETY: the queue of this thread's arena, whose front node is never null.
        let front = unsafe { F::advance(at(&self.front), restarting) };
        if let Some(node) = self.node(&self.queued, front) {
            self.check(node.holder.replace(actor + 1) == 0);
            let ticket = node.ticket.get();
            let seen = &record.seen[ticket % ACTORS];
            self.check(ticket == 0 || ticket > seen.get());
            seen.set(ticket);
        }
        Arena::count(record, 1);
    }

    /// Returns the node at an address, which must be one; `None` for 0.
    fn node<'a>(&'a self, nodes: &'a [Node; NODES], address: usize) -> Option<&'a Node> {
        if address == 0 {
            return None;
        }
        let index = address.wrapping_sub(nodes.as_ptr() as usize) / size_of::<Node>();
        self.check(index < NODES);
        nodes.get(index)
    }

    /// Returns how many operations the thread has made.
    pub fn made_by_thread(&self) -> u64 {
        self.records[THREAD].operations.get()
    }

    /// Checks what a handler sees at its start: no operation is incomplete.
    pub fn check_words(&self) {
        let equal = |words: &[Cell<usize>; 3]| {
            // SAFETY: words of this thread's arena. Volatile: the thread may be interrupted
            // anywhere.
            let words = words
                .each_ref()
                .map(|word| unsafe { word.as_ptr().read_volatile() });
            words[0] == words[1] && words[1] == words[2]
        };
        self.check(equal(&self.copies));
        self.check(equal(&self.shielded));
    }

    /// Makes the final check.
    pub fn check_final(&self) -> Outcome {
        let total =
            |of: fn(&Record) -> usize| self.records.iter().map(of).fold(0, usize::wrapping_add);
        let mut wrong = self.wrong.get() + self.structures.check_final();
        let mut expect = |found: usize, expected: usize| {
            // One for each number that is wrong.
            wrong += u64::from(found != expected);
        };
        expect(self.sum[0].get(), total(|record| record.added.get()));
        for word in &self.copies {
            expect(word.get(), total(|record| record.tripled.get()));
        }
        for word in &self.shielded {
            expect(word.get(), total(|record| record.shielded.get()));
        }
        let length = |nodes: &[Node; NODES], first: usize| {
            let (mut count, mut node) = (0, first);
            while let Some(found) = self.node(nodes, node).filter(|_| count <= NODES) {
                (count, node) = (count + 1, found.link.get());
            }
            count
        };
        expect(length(&self.listed, self.list.get()), NODES);
        let held = self
            .queued
            .iter()
            .filter(|node| node.holder.get() != 0)
            .count();
        expect(length(&self.queued, self.front.get()) + held, NODES);
        let operations = |record: &Record| record.operations.get();
        Outcome {
            by_thread: operations(&self.records[THREAD]),
            by_handlers: self.records[1..].iter().map(operations).sum(),
            wrong: wrong.max(self.wrong.get()),
        }
    }
}

/// What the records of an arena say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Operations of the thread.
    pub by_thread: u64,
    /// Operations of its handlers.
    pub by_handlers: u64,
    /// How many checks failed.
    pub wrong: u64,
}

impl Outcome {
    /// Returns the sums of both.
    pub fn and(self, other: Outcome) -> Outcome {
        Outcome {
            by_thread: self.by_thread + other.by_thread,
            by_handlers: self.by_handlers + other.by_handlers,
            wrong: self.wrong + other.wrong,
        }
    }
}
