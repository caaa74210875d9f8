//! The target `signals`: words that a thread shares with its own signal handlers, and sequences
//! that change them without an atomic instruction.
//!
//! ```text
//! sum       add: one store                     no addition is lost
//! copies    triple: three stores               handlers find them equal
//! shielded  plain stores, signals deferred     handlers find them equal
//! list      take, put                          a node is in the list, or held by one lane
//! local     the structures of `local`          each value is taken out once
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use atomseq::signal;
use crossbeam_utils::CachePadded;

use super::local::LocalStructures;
use crate::engine::invariant::{Checked, Violation, equal};
use crate::engine::lane::{Activity, LANES_PER_WORKER, Lane};
use crate::engine::ledger::Ledger;
use crate::engine::{Interruptions, Round, STEPS, Sabotage, Setting, Target};

/// The target `signals`.
pub const TARGET: Target = Target {
    name: "signals",
    group: "signals",
    about: "a storm of signals; no handler sees half an operation of its thread",
    round: |setting| Arc::new(SignalRound::new(setting)),
    steps: 16 * STEPS,
    interruptions: Interruptions::Storm,
    counts: "by handlers",
};

atomseq::sequence! {
    /// Adds to a word. The draft keeps this from being one instruction, which no signal could
    /// interrupt.
    unsafe fn add(word: Word, draft: Word, amount: Word) {
        let old = load(word);
        prepare(draft, old);
        commit(word, old + amount);
    }

    /// Adds one to three words; returns the old value of the first.
    unsafe fn triple(first: Word, second: Word, third: Word) -> Word {
        let old = load(first);
        store(first, old + 1);
        let other = load(second);
        store(second, other + 1);
        let last = load(third);
        store(third, last + 1);
        old
    }

    /// Takes the first node of a list whose links are the nodes' first words; 0 if there is none.
    unsafe fn take(list: Word) -> Word {
        let first = load(list);
        if first == 0 { return 0 }
        let next = load(first);
        commit(list, next);
        first
    }

    /// Puts a node in front of the first one.
    unsafe fn put(list: Word, node: Word) {
        let first = load(list);
        prepare(node, first);
        commit(list, node);
    }
}

/// How many nodes each list has; the lanes of a worker can take more.
const NODES: usize = 5;

// Indices of the lanes' sums.
const ADDED: usize = 0;
const TRIPLED: usize = 1;
const SHIELDED: usize = 2;
const LAST_SEEN: usize = 3;

/// A link, and the holder of the node.
#[derive(Default)]
#[repr(C)]
struct Node {
    link: AtomicUsize,
    holder: AtomicUsize,
}

/// What one worker shares with its handlers. Atomic only because the director reads it after all
/// have stopped.
#[derive(Default)]
struct Shared {
    sum: AtomicUsize,
    draft: AtomicUsize,
    copies: [AtomicUsize; 3],
    shielded: [AtomicUsize; 3],
    list: AtomicUsize,
    nodes: [Node; NODES],
    local: LocalStructures,
}

/// The words of each worker.
pub struct SignalRound {
    workers: Box<[CachePadded<Shared>]>,
    ledger: Ledger,
}

fn at(word: &AtomicUsize) -> usize {
    word.as_ptr() as usize
}

/// Relaxed: a thread and its handlers see the thread's stores in program order.
fn read(word: &AtomicUsize) -> usize {
    word.load(Ordering::Relaxed)
}

impl SignalRound {
    /// Returns words to which nothing was added, and all nodes in their lists.
    pub fn new(setting: &Setting) -> SignalRound {
        let workers = setting.lanes / LANES_PER_WORKER;
        let round = SignalRound {
            workers: (0..workers).map(|_| CachePadded::default()).collect(),
            ledger: Ledger::new(setting.salt, setting.lanes, 4 * STEPS),
        };
        for shared in &round.workers {
            for node in &shared.nodes {
                // SAFETY: a list and a node of this round, which no other thread knows yet.
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
            // SAFETY: a lane belongs to a worker or its handlers, and these words to that worker.
            _ => unsafe { shared.local.operate(&self.ledger, lane) },
        }
    }
}

impl Shared {
    fn add(&self, lane: &mut Lane) {
        lane.begin(Activity::Add);
        let amount = lane.rng.usize(1..1000);
        lane.totals[ADDED] += amount as u64;
        let times = match () {
            () if lane.inject(Sabotage::Lose) => 0,
            () if lane.inject(Sabotage::Duplicate) => 2,
            () => 1,
        };
        let restarting = lane.rng.bool();
        for _ in 0..times {
            // SAFETY: a word of this thread that only these sequences change.
            unsafe {
                match restarting {
                    true => add::restarting(at(&self.sum), at(&self.draft), amount),
                    false => add::rolling(at(&self.sum), at(&self.draft), amount),
                }
            }
        }
    }

    fn triple(&self, lane: &mut Lane) -> Checked {
        lane.begin(Activity::Add);
        let [first, second, third] = self.copies.each_ref().map(at);
        // SAFETY: words of this thread that only this sequence changes.
        let old = unsafe { triple::rolling(first, second, third) } as u64;
        lane.totals[TRIPLED] += 1;
        let least = lane.totals[LAST_SEEN];
        lane.totals[LAST_SEEN] = old + 1;
        if old < least {
            let violation = Violation::new("a number fell that is only added to");
            return Err(violation.with("number", old).with("at least", least));
        }
        Ok(())
    }

    /// Stores to one word after the other while signals are deferred.
    fn shield(&self, lane: &mut Lane) {
        lane.begin(Activity::Mask);
        let _masked = signal::mask();
        for word in &self.shielded {
            word.store(read(word) + 1, Ordering::Relaxed);
        }
        lane.totals[SHIELDED] += 1;
    }

    fn circulate(&self, lane: &mut Lane) -> Checked {
        let mut held = [0; 3];
        let restarting = lane.rng.bool();
        let me = lane.number % LANES_PER_WORKER + 1;
        for node in &mut held[..lane.rng.usize(1..=3)] {
            lane.begin(Activity::Pop);
            // SAFETY: a list of this thread that only these sequences change, and whose nodes live
            // as long.
            *node = unsafe {
                match restarting {
                    true => take::restarting(at(&self.list)),
                    false => take::rolling(at(&self.list)),
                }
            };
            if *node != 0 {
                self.pass(*node, 0, me)?;
            }
        }
        for node in held.into_iter().filter(|node| *node != 0) {
            lane.begin(Activity::Push);
            self.pass(node, me, 0)?;
            // SAFETY: the lane's own list, and a node that this lane holds.
            unsafe {
                match restarting {
                    true => put::rolling(at(&self.list), node),
                    false => put::restarting(at(&self.list), node),
                }
            }
        }
        Ok(())
    }

    /// Passes a node from one holder to another; 0 is the list.
    fn pass(&self, node: usize, from: usize, to: usize) -> Checked {
        let known = self.nodes.iter().find(|known| at(&known.link) == node);
        let Some(known) = known else {
            let violation = Violation::new("a node was taken out that was never put in");
            return Err(violation.with("address", node as u64));
        };
        let holder = read(&known.holder);
        known.holder.store(to, Ordering::Relaxed);
        if holder != from {
            let violation = Violation::new("a node was taken while another lane held it");
            return Err(violation
                .with("holder", holder as u64)
                .with("expected", from as u64));
        }
        Ok(())
    }

    /// Checks what a handler sees.
    fn check(&self) -> Checked {
        // Otherwise the other signal's handler could interrupt this one.
        let _masked = signal::mask();
        for (words, what) in [
            (&self.copies, "a handler saw half an operation"),
            (&self.shielded, "a handler ran while signals were deferred"),
        ] {
            let [first, second, third] = words.each_ref().map(read);
            if first != second || second != third {
                let violation = Violation::new(what).with("first", first as u64);
                return Err(violation
                    .with("second", second as u64)
                    .with("third", third as u64));
            }
        }
        Ok(())
    }

    fn check_final(&self, lanes: &[Lane]) -> Checked {
        let total = |index: usize| lanes.iter().map(|lane| lane.totals[index]).sum::<u64>();
        equal(
            "the sum is not what was added",
            read(&self.sum) as u64,
            total(ADDED),
        )?;
        self.check()?;
        equal(
            "what sequences stored was lost",
            read(&self.copies[0]) as u64,
            total(TRIPLED),
        )?;
        equal(
            "what was stored while signals were deferred was lost",
            read(&self.shielded[0]) as u64,
            total(SHIELDED),
        )?;
        let mut found = 0;
        loop {
            // SAFETY: as in `circulate`; all threads have stopped.
            match unsafe { take::restarting(at(&self.list)) } {
                0 => return equal("nodes were lost", found, NODES as u64),
                node => self.pass(node, 0, 1)?,
            }
            found += 1;
        }
    }
}

impl Round for SignalRound {
    fn step(&self, lane: &mut Lane) -> Checked {
        self.operate(lane)
    }

    fn interrupt(&self, lane: &mut Lane) -> Checked {
        self.shared(lane).check()?;
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
            shared.check_final(lanes)?;
            shared.local.check_final(&self.ledger, lanes)
        })?;
        self.ledger.check_final()
    }
}
