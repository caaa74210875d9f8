//! What one thread and its handlers change together, and the books that show whether anything got
//! lost.
//!
//! ```text
//! sum ── add                      copies ── triple: three words that are always equal
//! list ─> node ─> node …          take, put: a node in nobody's hands is in the list
//! front ─> node ─> … <─ last      append, advance: nodes come out in the order in which one actor put them in
//! shielded ── plain stores under the mask: three words that are always equal
//! ```

use std::cell::Cell;
use std::ptr;

use super::sequences::{Forms, at};
use super::structures::Structures;

/// How many nodes each of list and queue has.
const NODES: usize = 12;
/// How many actors there are: the thread, and a handler a signal.
pub const ACTORS: usize = 4;
/// The thread's own place among them.
pub const THREAD: usize = 0;

/// A link, and who has the node in hands.
#[derive(Debug, Default)]
#[repr(C)]
struct Node {
    link: Cell<usize>,
    holder: Cell<usize>,
    /// Who put it into the queue, and when.
    ticket: Cell<usize>,
}

/// What one actor has done; nobody else writes to it.
#[derive(Debug, Default)]
struct Book {
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

/// The words that are shared, and the books.
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
    books: [Book; ACTORS],
    structures: Structures,
    wrong: Cell<u64>,
    lists: bool,
}

impl Arena {
    /// With everything in its place. Without `lists` only words are counted: what a control loses
    /// must not be a link.
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
            books: Default::default(),
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
            // The first one is the queue's; the others are in the actors' hands.
            node.holder.set(holder);
        }
        for (actor, book) in arena.books.iter().enumerate() {
            book.choice.set(seed.wrapping_mul(2 * actor as u64 + 1) | 1);
        }
        arena
    }

    fn check(&self, holds: bool) {
        if !holds {
            self.wrong.set(self.wrong.get() + 1);
        }
    }

    /// One operation of an actor's choice, and another one that undoes it if need be.
    #[inline(always)]
    pub fn operate<F: Forms>(&self, actor: usize) {
        let book = &self.books[actor];
        // Marsaglia's xorshift: a few instructions, no allocation, a state of the actor's own.
        let mut choice = book.choice.get();
        choice ^= choice << 13;
        choice ^= choice >> 7;
        choice ^= choice << 17;
        book.choice.set(choice);
        let restarting = choice >> 40 & 1 == 0;
        let kinds = if self.lists { 12 } else { 6 };
        match (choice >> 32) as u32 % kinds {
            0..3 => self.add::<F>(book, choice as usize & 0xff, restarting),
            3..5 => self.triple::<F>(book),
            5 => self.shield(book, actor),
            6 => self.circulate::<F>(book, actor, choice, restarting),
            7 => self.queue::<F>(book, actor, restarting),
            _ => {
                self.check(self.structures.operate(actor, choice));
                Arena::count(book, 1);
            }
        }
    }

    fn count(book: &Book, operations: u64) {
        book.operations.set(book.operations.get() + operations);
    }

    #[inline(always)]
    fn add<F: Forms>(&self, book: &Book, amount: usize, restarting: bool) {
        // SAFETY: a word of this thread's arena.
        unsafe { F::add(at(&self.sum[0]), amount, restarting) };
        book.added.set(book.added.get().wrapping_add(amount));
        Arena::count(book, 1);
    }

    #[inline(always)]
    fn triple<F: Forms>(&self, book: &Book) {
        // SAFETY: three words of this thread's arena.
        let old = unsafe { F::triple(at(&self.copies[0]), 1) };
        self.check(old >= book.last_seen.get());
        book.last_seen.set(old + 1);
        book.tripled.set(book.tripled.get() + 1);
        Arena::count(book, 1);
    }

    /// Plain stores, one after the other; on the thread itself under the mask.
    #[inline(always)]
    fn shield(&self, book: &Book, actor: usize) {
        let _masked = (actor == THREAD).then(atomseq::signal::mask);
        for word in &self.shielded {
            // Volatile: each word is stored on its own.
            // SAFETY: a word of this thread's arena.
            unsafe {
                word.as_ptr()
                    .write_volatile(word.as_ptr().read_volatile() + 1)
            };
        }
        book.shielded.set(book.shielded.get() + 1);
        Arena::count(book, 1);
    }

    /// Takes up to three nodes off the list, and puts them back in another order.
    #[inline(always)]
    fn circulate<F: Forms>(&self, book: &Book, actor: usize, choice: u64, restarting: bool) {
        let mut hands = [0; 3];
        let wanted = 1 + (choice >> 50) as usize % hands.len();
        for hand in &mut hands[..wanted] {
            // SAFETY: the list of this thread's arena, whose nodes live as long.
            *hand = unsafe { F::take(at(&self.list), restarting) };
            if let Some(node) = self.node(&self.listed, *hand) {
                self.check(node.holder.replace(actor + 1) == 0);
            }
        }
        let taken = hands.iter().filter(|node| **node != 0).count();
        for hand in hands {
            if let Some(node) = self.node(&self.listed, hand) {
                self.check(node.holder.replace(0) == actor + 1);
                // SAFETY: as above; the node is in this actor's hands.
                unsafe { F::put(at(&self.list), hand, !restarting) };
            }
        }
        Arena::count(book, (wanted + taken) as u64);
    }

    /// Puts a node of the actor's behind the queue's last one, and takes the front one.
    #[inline(always)]
    fn queue<F: Forms>(&self, book: &Book, actor: usize, restarting: bool) {
        if let Some(node) = self
            .queued
            .iter()
            .find(|node| node.holder.get() == actor + 1)
        {
            node.link.set(0);
            book.tickets.set(book.tickets.get() + 1);
            node.ticket.set(book.tickets.get() * ACTORS + actor);
            node.holder.set(0);
            // SAFETY: the queue of this thread's arena; the node was in this actor's hands.
            unsafe { F::append(at(&self.last), ptr::from_ref(node) as usize) };
            Arena::count(book, 1);
        }
        // SAFETY: as above; the front node is never null.
        let front = unsafe { F::advance(at(&self.front), restarting) };
        if let Some(node) = self.node(&self.queued, front) {
            self.check(node.holder.replace(actor + 1) == 0);
            let ticket = node.ticket.get();
            let seen = &book.seen[ticket % ACTORS];
            self.check(ticket == 0 || ticket > seen.get());
            seen.set(ticket);
        }
        Arena::count(book, 1);
    }

    /// The node at an address, which must be one; nobody for 0.
    fn node<'a>(&'a self, nodes: &'a [Node; NODES], address: usize) -> Option<&'a Node> {
        if address == 0 {
            return None;
        }
        let index = address.wrapping_sub(nodes.as_ptr() as usize) / size_of::<Node>();
        self.check(index < NODES);
        nodes.get(index)
    }

    /// How many operations the thread has made.
    pub fn made_by_thread(&self) -> u64 {
        self.books[THREAD].operations.get()
    }

    /// What a handler sees on entry: no sequence is ever half done.
    pub fn look(&self) {
        let equal = |words: &[Cell<usize>; 3]| {
            // SAFETY: words of this thread's arena. Volatile: the thread was interrupted anywhere.
            let words = words
                .each_ref()
                .map(|word| unsafe { word.as_ptr().read_volatile() });
            words[0] == words[1] && words[1] == words[2]
        };
        self.check(equal(&self.copies));
        self.check(equal(&self.shielded));
    }

    /// The accounts, at the end.
    pub fn settle(&self) -> Settlement {
        let total = |of: fn(&Book) -> usize| self.books.iter().map(of).fold(0, usize::wrapping_add);
        let mut wrong = self.wrong.get() + self.structures.settle();
        let mut expect = |found: usize, expected: usize| {
            // What is lost or doubled, one by one, where that makes sense.
            wrong += u64::from(found != expected);
        };
        expect(self.sum[0].get(), total(|book| book.added.get()));
        for word in &self.copies {
            expect(word.get(), total(|book| book.tripled.get()));
        }
        for word in &self.shielded {
            expect(word.get(), total(|book| book.shielded.get()));
        }
        let length = |nodes: &[Node; NODES], first: usize| {
            let (mut count, mut node) = (0, first);
            while let Some(found) = self.node(nodes, node).filter(|_| count <= NODES) {
                (count, node) = (count + 1, found.link.get());
            }
            count
        };
        expect(length(&self.listed, self.list.get()), NODES);
        let in_hands = self
            .queued
            .iter()
            .filter(|node| node.holder.get() != 0)
            .count();
        expect(length(&self.queued, self.front.get()) + in_hands, NODES);
        let operations = |book: &Book| book.operations.get();
        Settlement {
            by_thread: operations(&self.books[THREAD]),
            by_handlers: self.books[1..].iter().map(operations).sum(),
            wrong: wrong.max(self.wrong.get()),
        }
    }
}

/// What an arena's books say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Operations of the thread.
    pub by_thread: u64,
    /// Operations of its handlers.
    pub by_handlers: u64,
    /// How often something did not add up.
    pub wrong: u64,
}

impl Settlement {
    /// Both together.
    pub fn and(self, other: Settlement) -> Settlement {
        Settlement {
            by_thread: self.by_thread + other.by_thread,
            by_handlers: self.by_handlers + other.by_handlers,
            wrong: self.wrong + other.wrong,
        }
    }
}
