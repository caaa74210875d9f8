//! Words that a thread shares with its own signal handlers, and sequences that change them without
//! an atomic instruction.
//!
//! ```text
//! sum       add: one store                 what was added is there
//! copies    triple: three stores           a handler finds them equal, wherever it interrupts
//! shielded  plain stores under the mask    the same
//! list      take, put                      a node is in the list, or in the hands of one lane
//! own       the structures of `local`      what goes in comes out, once
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::signal;
use crossbeam_utils::CachePadded;

use crate::torture::harness::lane::{Doing, LANES_PER_WORKER, Lane};
use crate::torture::harness::law::{Broken, Checked};
use crate::torture::harness::ledger::Ledger;
use crate::torture::harness::sabotage::Sabotage;
use crate::torture::harness::{Round, STEPS, Setting};
use crate::torture::subjects::own::Own;
use crate::torture::targets::counter::equal;

atomseq::sequence! {
    /// Adds to a word; the draft beside it keeps this from being one instruction, which nothing
    /// could interrupt.
    unsafe fn add(word: Word, draft: Word, amount: Word) {
        let old = load(word);
        prepare(draft, old);
        commit(word, old + amount);
    }

    /// Adds one to three words; returns what the first one was.
    unsafe fn triple(first: Word, second: Word, third: Word) -> Word {
        let old = load(first);
        store(first, old + 1);
        let other = load(second);
        store(second, other + 1);
        let last = load(third);
        store(third, last + 1);
        old
    }

    /// Takes the first node of a list whose links are the nodes' first words; 0 when there is none.
    unsafe fn take(list: Word) -> Word {
        let first = load(list);
        if first == 0 { return 0 }
        let next = load(first);
        commit(list, next);
        first
    }

    /// Puts a node in front.
    unsafe fn put(list: Word, node: Word) {
        let first = load(list);
        prepare(node, first);
        commit(list, node);
    }
}

/// How many nodes each list has: at times more than there are hands, at times fewer.
const NODES: usize = 5;

// Where lanes keep their sums.
const ADDED: usize = 0;
const TRIPLED: usize = 1;
const SHIELDED: usize = 2;
const LAST_SEEN: usize = 3;

/// A link, and who has the node.
#[derive(Default)]
#[repr(C)]
struct Node {
    link: AtomicUsize,
    holder: AtomicUsize,
}

/// What one worker shares with its handlers. Atomic only because the director looks at it once all
/// have stopped.
#[derive(Default)]
struct Shared {
    sum: AtomicUsize,
    draft: AtomicUsize,
    copies: [AtomicUsize; 3],
    shielded: [AtomicUsize; 3],
    list: AtomicUsize,
    nodes: [Node; NODES],
    own: Own,
}

/// A worker's words each.
pub struct Interrupted {
    workers: Box<[CachePadded<Shared>]>,
    ledger: Ledger,
}

fn at(word: &AtomicUsize) -> usize {
    word.as_ptr() as usize
}

/// Relaxed: the order of one thread's own words is the program's, for its handlers as well.
fn read(word: &AtomicUsize) -> usize {
    word.load(Ordering::Relaxed)
}

impl Interrupted {
    /// Nothing added, all nodes in their lists.
    pub fn new(setting: &Setting) -> Interrupted {
        let workers = setting.lanes / LANES_PER_WORKER;
        let round = Interrupted {
            workers: (0..workers).map(|_| CachePadded::default()).collect(),
            ledger: Ledger::new(setting.salt, setting.lanes, 4 * STEPS),
        };
        for shared in &round.workers {
            for node in &shared.nodes {
                // SAFETY: a list and a node of this round, which nobody else knows yet.
                unsafe { put::restarting(at(&shared.list), at(&node.link)) };
            }
        }
        round
    }

    fn shared(&self, lane: &Lane) -> &Shared {
        &self.workers[lane.number / LANES_PER_WORKER]
    }

    fn operate(&self, lane: &mut Lane) -> Checked {
        let shared = self.shared(lane);
        match lane.rng.u32(..12) {
            0..3 => {
                shared.add(lane);
                Ok(())
            }
            3..5 => shared.triple(lane),
            5 => {
                shared.shield(lane);
                Ok(())
            }
            6..8 => shared.circulate(lane),
            // SAFETY: a lane is a worker's or its handlers', and these are that worker's.
            _ => unsafe { shared.own.operate(&self.ledger, lane) },
        }
    }
}

impl Shared {
    fn add(&self, lane: &mut Lane) {
        lane.begin(Doing::Add);
        let amount = lane.rng.usize(1..1000);
        lane.totals[ADDED] += amount as u64;
        let times = match () {
            () if lane.strikes(Sabotage::Lose) => 0,
            () if lane.strikes(Sabotage::Duplicate) => 2,
            () => 1,
        };
        let restarting = lane.rng.bool();
        for _ in 0..times {
            // SAFETY: a word of this thread, which only these sequences change.
            unsafe {
                match restarting {
                    true => add::restarting(at(&self.sum), at(&self.draft), amount),
                    false => add::rolling(at(&self.sum), at(&self.draft), amount),
                }
            }
        }
    }

    fn triple(&self, lane: &mut Lane) -> Checked {
        lane.begin(Doing::Add);
        let [first, second, third] = self.copies.each_ref().map(at);
        // SAFETY: words of this thread, which only this sequence changes.
        let old = unsafe { triple::rolling(first, second, third) } as u64;
        lane.totals[TRIPLED] += 1;
        let least = lane.totals[LAST_SEEN];
        lane.totals[LAST_SEEN] = old + 1;
        if old < least {
            let law = Broken::new("a number fell that is only ever added to");
            return Err(law.with("number", old).with("at least", least));
        }
        Ok(())
    }

    /// One plain store after the other, while handlers wait.
    fn shield(&self, lane: &mut Lane) {
        lane.begin(Doing::Mask);
        let _masked = signal::mask();
        for word in &self.shielded {
            word.store(read(word) + 1, Ordering::Relaxed);
        }
        lane.totals[SHIELDED] += 1;
    }

    fn circulate(&self, lane: &mut Lane) -> Checked {
        let mut hands = [0; 3];
        let restarting = lane.rng.bool();
        let me = lane.number % LANES_PER_WORKER + 1;
        for hand in &mut hands[..lane.rng.usize(1..=3)] {
            lane.begin(Doing::Pop);
            // SAFETY: a list of this thread, which only these sequences change, and whose nodes
            // live as long.
            *hand = unsafe {
                match restarting {
                    true => take::restarting(at(&self.list)),
                    false => take::rolling(at(&self.list)),
                }
            };
            if *hand != 0 {
                self.pass(*hand, 0, me)?;
            }
        }
        for hand in hands.into_iter().filter(|hand| *hand != 0) {
            lane.begin(Doing::Push);
            self.pass(hand, me, 0)?;
            // SAFETY: as above; the node is in this lane's hands.
            unsafe {
                match restarting {
                    true => put::rolling(at(&self.list), hand),
                    false => put::restarting(at(&self.list), hand),
                }
            }
        }
        Ok(())
    }

    /// A node goes from one holder to another; 0 is the list.
    fn pass(&self, node: usize, from: usize, to: usize) -> Checked {
        let known = self.nodes.iter().find(|known| at(&known.link) == node);
        let Some(known) = known else {
            let law = Broken::new("a list gave out what was never put into it");
            return Err(law.with("address", node as u64));
        };
        let holder = read(&known.holder);
        known.holder.store(to, Ordering::Relaxed);
        if holder != from {
            let law = Broken::new("a node was handed out while somebody held it");
            return Err(law
                .with("holder", holder as u64)
                .with("expected", from as u64));
        }
        Ok(())
    }

    /// What a handler finds, wherever it interrupts.
    fn look(&self) -> Checked {
        // The other signal's handler may interrupt this one.
        let _masked = signal::mask();
        for (words, law) in [
            (&self.copies, "a handler saw a sequence half done"),
            (&self.shielded, "a handler came in under the mask"),
        ] {
            let [first, second, third] = words.each_ref().map(read);
            if first != second || second != third {
                let law = Broken::new(law).with("first", first as u64);
                return Err(law
                    .with("second", second as u64)
                    .with("third", third as u64));
            }
        }
        Ok(())
    }

    fn settle(&self, lanes: &[Lane]) -> Checked {
        let total = |index: usize| lanes.iter().map(|lane| lane.totals[index]).sum::<u64>();
        equal(
            "the sum is not what was added",
            read(&self.sum) as u64,
            total(ADDED),
        )?;
        self.look()?;
        equal(
            "what sequences stored was lost",
            read(&self.copies[0]) as u64,
            total(TRIPLED),
        )?;
        equal(
            "what was stored under the mask was lost",
            read(&self.shielded[0]) as u64,
            total(SHIELDED),
        )?;
        let mut found = 0;
        loop {
            // SAFETY: as in `circulate`; all have stopped.
            match unsafe { take::restarting(at(&self.list)) } {
                0 => return equal("objects were lost", found, NODES as u64),
                node => self.pass(node, 0, 1)?,
            }
            found += 1;
        }
    }
}

impl Round for Interrupted {
    fn step(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.shared(lane).look()?;
        for _ in 0..lane.rng.u32(1..=3) {
            lane.counted += 1;
            self.operate(lane)?;
        }
        Ok(())
    }

    fn finish(&mut self, lanes: &mut [Lane]) -> Checked {
        let mut lanes = lanes.chunks(LANES_PER_WORKER);
        self.workers.iter().try_for_each(|shared| {
            let lanes = lanes.next().unwrap_or_default();
            shared.settle(lanes)?;
            shared.own.settle(&self.ledger, lanes)
        })?;
        self.ledger.settle()
    }
}
