//! Growing and shrinking, by one bucket at a time (linear hashing).
//!
//! Bucket `i` of depth `d` has the keys whose hashes end in the `d` bits of `i`. A bucket `j` with
//! its top bit at position `d` is the child of its parent, `j` without that bit. Splitting the
//! parent moves half of its keys to the child; merging moves them back.
//!
//! ```text
//! split    child:   DEAD -> CLAIMED, all free entries reserved
//!          child:   write copies of the entries that move
//!          child:   CLAIMED -> NASCENT, the copies live
//!          parent:  depth d -> d + 1, the moved entries free     if unchanged since they were copied
//!          child:   NASCENT -> LIVE, by any thread that meets it
//! merge    child:   LIVE -> FROZEN
//!          parent:  load the state; the child is still FROZEN, at the same version
//!          parent:  write copies to reserved entries, and to foreign nodes
//!          parent:  depth d + 1 -> d, the copies live            if unchanged since its state was loaded
//!          child:   FROZEN -> DEAD
//! thaw     child:   FROZEN -> THAWING
//!          parent:  the depth is above d; version + 1
//!          child:   THAWING -> LIVE
//! ```
//!
//! The change of the parent's depth is one compare-and-swap, and moves all keys at once: a hash
//! belongs to the child if the parent's depth is above `d`. A child that is LIVE says the same by
//! itself, so operations on it do not look at the parent. A thread that finds a child in another
//! phase looks at the parent's depth, and either makes the child LIVE or uses the parent.
//!
//! A node in the chain of a bucket may be *foreign*: its hash does not belong to the bucket. A
//! split leaves the nodes of keys that moved, and a merge adds the copies that have no room in
//! place. No search finds a foreign node, because it looks for a hash that belongs to the bucket.
//! A merge starts with a chain without foreign nodes, and its own are no longer foreign when the
//! depth changes.
//!
//! The hash of a node is stored in it, so each thread decides alike whether the node is foreign,
//! whatever the key's `Hash` and `Eq` do. Otherwise one entry could be found in two places, and a
//! [`RefHashMap`](super::RefHashMap) would end its value twice.
//!
//! No step waits. A thread that is stopped in a split or a merge delays neither operations on keys,
//! which use the bucket that the depth names, nor growth:
//!
//! 1. A child that is LIVE belongs to a parent of a depth above `d`. It becomes LIVE only after a
//!    load of that depth, and the depth becomes `d` only by a merge, below.
//! 2. A thread commits a split only for the NASCENT child that it has filled in. A thread that
//!    claims a NASCENT child first changes the parent's version, so the other thread's commit
//!    fails. The parent's state that it expects is older than NASCENT.
//! 3. A thread commits a merge only at a state of the parent after whose load the child was FROZEN
//!    by itself. A thread that thaws the child stores THAWING first, and then changes the parent's
//!    version. So either the merge sees THAWING, or it fails at the parent, or its commit came
//!    first and the thread that thaws finds the child dead.
//! 4. Reserved entries belong to the thread that has reserved them, in every phase. A thread that
//!    takes over a claim uses only the entries that are not reserved, and nodes.

use super::bucket::{
    Bucket, CLAIMED, DEAD, FROZEN, LIVE, MAX_DEPTH, NASCENT, Node, State, THAWING, slots,
};
use super::table::{Changed, Place, Table, index_at, parent_of};
use crate::dcas::StableWord;
use crate::nonblocking::nodes::address;
use crate::nonblocking::plain::Plain;
use crate::sync::{Ordering, fence};

/// A table grows when it has more than this number of entries in two buckets, and shrinks when it
/// has fewer than half as many. With more entries, more of them have no room in their bucket: of
/// two a bucket, a third of the insertions would link a node.
const LOAD: usize = 3;

/// Returns the number of buckets, a power of two, with room for that many entries.
pub(super) fn buckets_for(entries: usize) -> Option<usize> {
    entries
        .checked_mul(2)?
        .div_ceil(LOAD)
        .checked_next_power_of_two()
}

/// The max number of buckets that one operation splits or merges. One change in 32 looks at the
/// number of entries, and while the map empties, four buckets are merged for three removals.
const BATCH: usize = 64;

/// How many buckets are split at the same time, by as many threads.
const WINDOW: usize = 8;

/// How often a split or a merge is attempted while other threads change its buckets.
const ATTEMPTS: usize = 8;

/// A child that a thread fills in.
struct Claim<'a, K, V> {
    child: Bucket<'a, K, V>,
    /// The state, but for `reserved`.
    state: State,
    /// The entries that this thread has reserved.
    mine: u64,
}

/// What a split or a merge has just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A split has claimed the child.
    Claimed,
    /// A split has copied the entries that move.
    Filled,
    /// A split is about to commit.
    Nascent,
    /// A split has committed.
    Split,
    /// A merge has frozen the child.
    Frozen,
    /// A merge is about to commit.
    Copied,
    /// A merge has committed.
    Merged,
}

/// A test has stopped the thread after a step.
pub(super) struct Stopped;

/// What is called after each step. Tests make other changes there, or stop the thread.
pub(super) trait Steps {
    fn after(&mut self, step: Step) -> Result<(), Stopped>;
}

/// Does nothing between the steps.
impl Steps for () {
    #[inline(always)]
    fn after(&mut self, _: Step) -> Result<(), Stopped> {
        Ok(())
    }
}

#[cfg(any(test, feature = "unstable-internals"))]
impl<F: FnMut(Step) -> bool> Steps for F {
    fn after(&mut self, step: Step) -> Result<(), Stopped> {
        match self(step) {
            true => Ok(()),
            false => Err(Stopped),
        }
    }
}

/// A node, and the link that leads to it.
type Linked<'a, K, V> = (&'a StableWord, &'a Node<K, V>);

/// How an attempt to split a bucket ended.
#[derive(PartialEq, Eq)]
pub(super) enum Split {
    Done,
    /// Another thread has split it, or is about to.
    ByAnother,
    /// There is no memory, or the buckets have changed too often.
    Failed,
}

impl<K: Plain, V: Plain> Table<K, V> {
    /// Splits or merges a few buckets, if the number of entries asks for it. Returns whether it may
    /// ask for more.
    #[cold]
    #[inline(never)]
    pub(super) fn balance(&self, hash: &impl Fn(&K) -> u64) -> bool {
        let entries = self.len();
        // Relaxed: a hint.
        let count = || self.buckets.0.load(Ordering::Relaxed);
        for _ in 0..BATCH {
            let buckets = count();
            let changed = if 2 * entries > LOAD * buckets {
                // Behind by a quarter: the threads that split have been stopped.
                self.grow(hash, 8 * entries > 5 * LOAD * buckets + 512)
            } else if 4 * entries < LOAD * buckets && buckets > self.fewest {
                self.shrink(hash)
            } else {
                return false;
            };
            if !changed {
                return false;
            }
        }
        true
    }

    /// Merges as many buckets as the number of entries asks for, but not more than there are now.
    pub(super) fn balance_all(&self, hash: &impl Fn(&K) -> u64) {
        // Relaxed: a hint.
        let batches = self.buckets.0.load(Ordering::Relaxed) / BATCH;
        _ = (0..=batches).all(|_| self.balance(hash));
    }

    /// Splits a bucket. Returns whether it did. If it is `urgent`, takes over the work of other
    /// threads.
    fn grow(&self, hash: &impl Fn(&K) -> u64, urgent: bool) -> bool {
        // Acquire: pairs with the release in `advance`.
        let first = self.buckets.0.load(Ordering::Acquire);
        for index in first..first + WINDOW {
            let outcome = self.split::<true>(index, hash, urgent, &mut ());
            let Ok(outcome) = outcome else {
                return false;
            };
            self.advance();
            match outcome {
                Split::Done => return true,
                Split::ByAnother => {}
                Split::Failed => return false,
            }
        }
        false
    }

    /// Counts the buckets that follow the counted ones.
    pub(super) fn advance(&self) {
        loop {
            // Acquire, and Release below: a thread that uses the count sees the segment mapped.
            let count = self.buckets.0.load(Ordering::Acquire);
            let next = self.at(count);
            if next
                .and_then(|bucket| self.live_state(count, bucket))
                .is_none()
            {
                return;
            }
            let (counted, by_another) = (Ordering::AcqRel, Ordering::Relaxed);
            _ = (self.buckets.0).compare_exchange(count, count + 1, counted, by_another);
        }
    }

    /// Returns the state of a bucket in which it is LIVE, and makes it LIVE if hashes belong to it.
    /// `None` if they belong to its parent.
    pub(super) fn live_state(&self, index: usize, bucket: Bucket<'_, K, V>) -> Option<State> {
        loop {
            let state = bucket.state();
            match state.phase() {
                LIVE => return Some(state),
                DEAD | CLAIMED => return None,
                _ => {}
            }
            // Bucket 0 has no parent and is always LIVE.
            let parent = self.at(parent_of(index))?;
            let of_parent = parent.state();
            if of_parent.depth() <= index.ilog2() {
                return None;
            }
            match state.phase() {
                FROZEN => _ = bucket.change(state, |state| state.next().in_phase(THAWING)),
                THAWING if parent.change(of_parent, State::next).is_none() => {}
                _ => _ = bucket.change(state, |state| state.next().in_phase(LIVE)),
            }
        }
    }

    /// Returns the first bucket that a split must make before this one, or this one. A bucket below
    /// the counted ones is missing if a merge of it was stopped before the count was decreased.
    fn missing_up_to(&self, mut index: usize) -> usize {
        loop {
            let parent = parent_of(index);
            let state = (self.at(parent)).and_then(|bucket| self.live_state(parent, bucket));
            match state {
                None => index = parent,
                Some(state) if state.depth() < index.ilog2() => index = parent | 1 << state.depth(),
                Some(_) => return index,
            }
        }
    }

    /// Splits the parent of a bucket. Without `CHECKED`, commits even if the parent has changed:
    /// the control of the tests, which must find that.
    pub(super) fn split<const CHECKED: bool>(
        &self,
        index: usize,
        hash: &impl Fn(&K) -> u64,
        urgent: bool,
        steps: &mut impl Steps,
    ) -> Result<Split, Stopped> {
        let index = self.missing_up_to(index);
        let depth = index.ilog2();
        if depth >= MAX_DEPTH {
            return Ok(Split::Failed);
        }
        let Some((child, parent)) = self.at_or_map(index).zip(self.at(parent_of(index))) else {
            return Ok(Split::Failed);
        };
        let Some(mut claim) = self.claim(index, child, parent, urgent) else {
            return Ok(Split::ByAnother);
        };
        steps.after(Step::Claimed)?;
        for _ in 0..ATTEMPTS {
            let state = parent.state();
            if state.phase() != LIVE || state.depth() != depth {
                break;
            }
            let mut moved = 0;
            let mut filled = 0;
            let Some(()) = self.empty(&mut claim) else {
                child.release(claim.mine);
                return Ok(Split::ByAnother);
            };
            let copied = self.each_entry(parent, state, hash, |place, of_key, key, value| {
                if index_at(of_key, depth + 1) != index {
                    return Ok(());
                }
                if let Place::Slot(slot) = place {
                    moved |= 1 << slot;
                }
                match slots(claim.mine & !filled).next() {
                    Some(slot) => {
                        child.write(slot, key, value);
                        filled |= 1 << slot;
                        Ok(())
                    }
                    None => self.push(child, &mut claim.state, of_key, key, value),
                }
            });
            if copied.is_err() {
                continue;
            }
            steps.after(Step::Filled)?;
            let mine = claim.mine;
            let nascent = child.change(claim.state, |state| {
                (state.next().in_phase(NASCENT).at_depth(depth + 1))
                    .with_live(filled)
                    .with_reserved(state.reserved() & !mine)
            });
            let Some(nascent) = nascent else {
                child.release(mine);
                return Ok(Split::ByAnother);
            };
            steps.after(Step::Nascent)?;
            let commit =
                |state: State| (state.next().at_depth(depth + 1)).with_live(state.live() & !moved);
            let state = if CHECKED { state } else { parent.state() };
            if parent.change(state, commit).is_some() {
                steps.after(Step::Split)?;
                _ = child.change(nascent, |state| state.next().in_phase(LIVE));
                self.sweep(parent_of(index), parent);
                return Ok(Split::Done);
            }
            // This thread alone could have committed this state, and did not.
            let Some(again) = claim_as(child, nascent) else {
                return Ok(Split::ByAnother);
            };
            claim = again;
        }
        self.abandon(claim);
        Ok(Split::Failed)
    }

    /// Claims a child that is none yet. `None` if it is, or if another thread has claimed it and
    /// this is not `urgent`.
    fn claim<'a>(
        &'a self,
        index: usize,
        child: Bucket<'a, K, V>,
        parent: Bucket<'a, K, V>,
        urgent: bool,
    ) -> Option<Claim<'a, K, V>> {
        let state = child.state();
        let of_parent = parent.state();
        let is_free = match state.phase() {
            DEAD => true,
            CLAIMED => urgent,
            _ if of_parent.depth() > index.ilog2() => false,
            // The thread that made it NASCENT may be about to commit. It cannot after this.
            NASCENT => urgent && parent.change(of_parent, State::next).is_some(),
            // Merged.
            FROZEN | THAWING => true,
            _ => false,
        };
        match is_free {
            true => claim_as(child, state),
            false => None,
        }
    }

    /// Unlinks and frees all nodes of a claimed child. `None` if another thread has taken over the
    /// claim.
    fn empty(&self, claim: &mut Claim<'_, K, V>) -> Option<()> {
        self.unlink_all(claim.child, &mut claim.state)
    }

    /// Unlinks and frees all nodes of a bucket that only the calling thread changes, unless another
    /// one takes it over: then returns `None`.
    fn unlink_all(&self, bucket: Bucket<'_, K, V>, state: &mut State) -> Option<()> {
        loop {
            let mut first = None;
            let seen = self.each_node(bucket, *state, |link, node| {
                first = Some((link, node));
                false
            });
            if seen.is_err() || !bucket.is_still(*state) {
                return None;
            }
            let Some((link, node)) = first else {
                return Some(());
            };
            if !self.unlink(bucket, *state, link, node) {
                return None;
            }
            *state = state.next();
        }
    }

    /// Links a new node to a bucket, at its next version.
    fn push(
        &self,
        bucket: Bucket<'_, K, V>,
        state: &mut State,
        hash: u64,
        key: K,
        value: V,
    ) -> Result<(), Changed> {
        let node = self.node_of(hash, key, value).map_err(|_| Changed)?;
        let is_linked = self.exchange(bucket, *state, State::next, || {
            let first = bucket.word().load(bucket.link());
            [(bucket.link(), address(&*node)), (&node.next, first)]
        });
        if !is_linked {
            return Err(Changed);
        }
        node.into_raw();
        *state = state.next();
        Ok(())
    }

    /// Gives up a claim: the child is DEAD again.
    fn abandon(&self, mut claim: Claim<'_, K, V>) {
        let dead = self.empty(&mut claim).and_then(|()| {
            let mine = claim.mine;
            (claim.child).change(claim.state, |state| {
                (state.next().in_phase(DEAD)).with_reserved(state.reserved() & !mine)
            })
        });
        if dead.is_none() {
            claim.child.release(claim.mine);
        }
    }

    /// Unlinks the foreign nodes of a bucket. Returns the state at which it has none, or `None` if
    /// other threads change it too often.
    fn sweep(&self, index: usize, bucket: Bucket<'_, K, V>) -> Option<State> {
        let mut left = ATTEMPTS;
        while left > 0 {
            let state = bucket.state();
            if state.phase() != LIVE {
                return None;
            }
            let foreign = self.foreign_node(index, bucket, state);
            match foreign {
                Ok(None) => return Some(state),
                Ok(Some((link, node))) if self.unlink(bucket, state, link, node) => {}
                _ => left -= 1,
            }
        }
        None
    }

    /// Returns the first foreign node of a bucket.
    fn foreign_node<'a>(
        &'a self,
        index: usize,
        bucket: Bucket<'a, K, V>,
        state: State,
    ) -> Result<Option<Linked<'a, K, V>>, Changed> {
        let mut foreign = None;
        self.each_node(bucket, state, |link, node| {
            if index_at(node.hash.load(), state.depth()) != index {
                foreign = Some((link, node));
            }
            foreign.is_none()
        })?;
        match bucket.is_still(state) {
            true => Ok(foreign),
            false => Err(Changed),
        }
    }

    /// Merges the last bucket with its parent. Returns whether there is one bucket less.
    fn shrink(&self, hash: &impl Fn(&K) -> u64) -> bool {
        self.shrink_with(hash, &mut ())
    }

    /// Does the same, with `steps` between the steps.
    pub(super) fn shrink_with(&self, hash: &impl Fn(&K) -> u64, steps: &mut impl Steps) -> bool {
        // Acquire: pairs with the release in `advance`.
        let count = self.buckets.0.load(Ordering::Acquire);
        let index = count - 1;
        if count <= self.fewest {
            return false;
        }
        let last = self.last_from(index);
        if !self.merge(last, hash, steps).unwrap_or(false) {
            return false;
        }
        if last != index {
            return true;
        }
        // Release: pairs with the acquire in `route`. The smaller count needs no more than the
        // larger one.
        let (counted, by_another) = (Ordering::AcqRel, Ordering::Relaxed);
        _ = (self.buckets.0).compare_exchange(count, index, counted, by_another);
        true
    }

    /// Returns the first bucket that must be merged before this one, or this one. A bucket behind
    /// the counted ones is LIVE if the split of one before it was stopped, or if the count was
    /// decreased late.
    fn last_from(&self, mut index: usize) -> usize {
        loop {
            let later = [index, parent_of(index)].into_iter().find_map(|parent| {
                let state = self.live_state(parent, self.at(parent)?)?;
                let last_child = parent | 1 << state.depth() >> 1;
                (last_child > index).then_some(last_child)
            });
            match later {
                Some(later) => index = later,
                None => return index,
            }
        }
    }

    /// Merges a bucket with its parent. Returns whether it is dead now.
    pub(super) fn merge(
        &self,
        index: usize,
        hash: &impl Fn(&K) -> u64,
        steps: &mut impl Steps,
    ) -> Result<bool, Stopped> {
        let depth = index.ilog2();
        let Some((child, parent)) = self.at(index).zip(self.at(parent_of(index))) else {
            return Ok(true);
        };
        let Some(state) = self.live_state(index, child) else {
            return Ok(true);
        };
        if state.depth() != depth + 1 {
            return Ok(false);
        }
        let freeze = |state: State| state.next().in_phase(FROZEN);
        let Some(frozen) = child.change(state, freeze) else {
            return Ok(false);
        };
        steps.after(Step::Frozen)?;
        let mut merged = false;
        for _ in 0..ATTEMPTS {
            merged = merged || self.copy_back(index, child, frozen, parent, hash, steps)?;
        }
        if !merged {
            // Thaws it, unless another thread has.
            _ = self.live_state(index, child);
            self.sweep(parent_of(index), parent);
            return Ok(false);
        }
        steps.after(Step::Merged)?;
        let mut state = frozen;
        if self.unlink_all(child, &mut state).is_some() {
            _ = child.change(state, |state| {
                (state.next().in_phase(DEAD)).with_live(0).at_depth(0)
            });
        }
        Ok(true)
    }

    /// Copies the entries of a frozen child to the parent, and commits. Returns whether it did.
    fn copy_back(
        &self,
        index: usize,
        child: Bucket<'_, K, V>,
        frozen: State,
        parent: Bucket<'_, K, V>,
        hash: &impl Fn(&K) -> u64,
        steps: &mut impl Steps,
    ) -> Result<bool, Stopped> {
        let depth = index.ilog2();
        let Some(mut state) = self.sweep(parent_of(index), parent) else {
            return Ok(false);
        };
        if state.depth() != depth + 1 || !child.is_still(frozen) {
            return Ok(false);
        }
        let mut mine = !(state.live() | state.reserved()) & Bucket::<K, V>::ALL;
        while mine.count_ones() > frozen.live().count_ones() {
            mine &= mine - 1;
        }
        if mine != 0 && !parent.reserve(state, mine) {
            return Ok(false);
        }
        state = state.with_reserved(state.reserved() | mine);
        let mut filled = 0;
        let copied = self.each_entry(child, frozen, hash, |_, of_key, key, value| {
            if index_at(of_key, depth + 1) != index {
                return Ok(());
            }
            match slots(mine & !filled).next() {
                Some(slot) => {
                    parent.write(slot, key, value);
                    filled |= 1 << slot;
                    Ok(())
                }
                None => self.push(parent, &mut state, of_key, key, value),
            }
        });
        let commit = |state: State| {
            (state.next().at_depth(depth))
                .with_live(state.live() | filled)
                .with_reserved(state.reserved() & !mine)
        };
        steps.after(Step::Copied)?;
        if copied.is_ok() && child.is_still(frozen) && parent.change(state, commit).is_some() {
            return Ok(true);
        }
        if mine != 0 {
            parent.release(mine);
        }
        Ok(false)
    }
}

/// Claims a child in that state: reserves all its free entries, and frees the others. `None` if the
/// state has changed.
fn claim_as<'a, K: Plain, V: Plain>(
    child: Bucket<'a, K, V>,
    since: State,
) -> Option<Claim<'a, K, V>> {
    let mut seen = since;
    loop {
        let mine = Bucket::<K, V>::ALL & !seen.reserved();
        let claimed = (seen.next().in_phase(CLAIMED).at_depth(0))
            .with_live(0)
            .with_reserved(Bucket::<K, V>::ALL);
        if child.compare_exchange(seen, claimed) {
            // Release fence: pairs with the acquire fence in `is_still`, as in `Bucket::reserve`.
            fence(Ordering::Release);
            return Some(Claim {
                child,
                state: claimed,
                mine,
            });
        }
        seen = child.state();
        if !seen.is_same(since) {
            return None;
        }
    }
}
