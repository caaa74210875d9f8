//! A bucket: its state, the link to its overflow nodes, and a few entries in place.
//!
//! ```text
//! state     62 … 60 phase | 59 … 55 depth | 54 … 51 reserved | 50 … 47 live | 46 … 0 version
//! link      the first overflow node, or 0
//! entries   SLOTS entries: a key and a value
//! ```
//!
//! The state of the bucket covers all: an entry counts if its `live` bit is set, or if its node is
//! linked. Only the thread that has set a `reserved` bit writes to that entry, until it clears the
//! bit or turns it into the `live` bit.

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::dcas::{StableWord, StateWord};
use crate::nonblocking::plain::{Plain, Words};
use crate::sync::{Ordering, fence};
use crate::type_stable::Descriptor;

/// The state of a bucket at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State(pub(super) u64);

/// What a bucket is at the moment. `resize.rs` has the transitions.
///
/// No bucket yet, or no longer: its hashes belong to its parent.
pub(super) const DEAD: u64 = 0;
/// A thread fills it in to become a bucket.
pub(super) const CLAIMED: u64 = 1;
/// Filled in. Its hashes belong to it as soon as the parent's depth says so.
pub(super) const NASCENT: u64 = 2;
/// A bucket that operations may change.
pub(super) const LIVE: u64 = 3;
/// A bucket that a thread copies to the parent. Its hashes belong to it as long as the parent's
/// depth says so, and it does not change meanwhile.
pub(super) const FROZEN: u64 = 4;
/// As FROZEN, on its way back to LIVE.
pub(super) const THAWING: u64 = 5;

const LIVE_SHIFT: u32 = 47;
const RESERVED_SHIFT: u32 = 51;
const DEPTH_SHIFT: u32 = 55;
const PHASE_SHIFT: u32 = 60;
const VERSION: u64 = (1 << LIVE_SHIFT) - 1;
const SLOT_MASK: u64 = 0xf;

/// The flags that a change of others does not depend on: which entries are being written.
pub(super) const RESERVED: u64 = SLOT_MASK << RESERVED_SHIFT;

/// The largest depth: the number of low bits of a hash that all keys of a bucket share.
pub(super) const MAX_DEPTH: u32 = 31;

const _: () = assert!(MAX_DEPTH < 1 << (PHASE_SHIFT - DEPTH_SHIFT));

impl State {
    /// Returns the state of a new bucket of that depth without entries.
    pub(super) fn live_at(depth: u32) -> State {
        State(1).in_phase(LIVE).at_depth(depth)
    }

    /// Returns the bits of the entries that count.
    #[inline(always)]
    pub(super) fn live(self) -> u64 {
        self.0 >> LIVE_SHIFT & SLOT_MASK
    }

    /// Returns the bits of the entries that a thread may be writing.
    #[inline(always)]
    pub(super) fn reserved(self) -> u64 {
        self.0 >> RESERVED_SHIFT & SLOT_MASK
    }

    #[inline(always)]
    pub(super) fn depth(self) -> u32 {
        (self.0 >> DEPTH_SHIFT) as u32 & MAX_DEPTH
    }

    #[inline(always)]
    pub(super) fn phase(self) -> u64 {
        self.0 >> PHASE_SHIFT
    }

    /// Returns the same state at the next version.
    #[inline(always)]
    pub(super) fn next(self) -> State {
        State(self.0 & !VERSION | (self.0 + 1) & VERSION)
    }

    #[inline(always)]
    pub(super) fn with_live(self, live: u64) -> State {
        State(self.0 & !(SLOT_MASK << LIVE_SHIFT) | live << LIVE_SHIFT)
    }

    #[inline(always)]
    pub(super) fn with_reserved(self, reserved: u64) -> State {
        State(self.0 & !RESERVED | reserved << RESERVED_SHIFT)
    }

    pub(super) fn at_depth(self, depth: u32) -> State {
        State(self.0 & !(u64::from(MAX_DEPTH) << DEPTH_SHIFT) | u64::from(depth) << DEPTH_SHIFT)
    }

    pub(super) fn in_phase(self, phase: u64) -> State {
        State(self.0 & !(7 << PHASE_SHIFT) | phase << PHASE_SHIFT)
    }

    /// Returns whether only `reserved` differs.
    #[inline(always)]
    pub(super) fn is_same(self, other: State) -> bool {
        (self.0 ^ other.0) & !RESERVED == 0
    }
}

/// A key and its value.
#[repr(C)]
pub(super) struct Entry<K, V> {
    pub(super) key: Words<K>,
    pub(super) value: Words<V>,
}

/// An entry that found no room in its bucket.
#[repr(C)]
pub(super) struct Node<K, V> {
    pub(super) next: StableWord,
    /// The key's hash when the node was written. It decides whether the node is foreign: the key's
    /// `Hash` and `Eq` may contradict themselves, and could show an entry that has moved.
    pub(super) hash: Words<u64>,
    pub(super) entry: Entry<K, V>,
}

// SAFETY: all zeros is a valid instance, and may appear at any time: every field is read as atomic
// words, and has no destructor.
unsafe impl<K: Plain, V: Plain> Descriptor for Node<K, V> {}

#[repr(C)]
struct Header {
    state: StateWord,
    link: StableWord,
}

/// A bucket of a table that is borrowed for `'a`.
pub(super) struct Bucket<'a, K, V> {
    start: NonNull<u8>,
    of: PhantomData<&'a Entry<K, V>>,
}

impl<K, V> Clone for Bucket<'_, K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Bucket<'_, K, V> {}

impl<'a, K: Plain, V: Plain> Bucket<'a, K, V> {
    /// The number of entries in place: three of two words each fill a cache line.
    pub(super) const SLOTS: usize = if size_of::<Entry<K, V>>() > 8 { 3 } else { 4 };

    /// Where the entries start. Keys and values may have any alignment up to a page.
    const ENTRIES: usize = size_of::<Header>().next_multiple_of(align_of::<Entry<K, V>>());

    /// The number of bytes from one bucket to the next: a cache line at least.
    pub(super) const STRIDE: usize = {
        let bytes = Self::ENTRIES + Self::SLOTS * size_of::<Entry<K, V>>();
        let bytes = if bytes < 64 { 64 } else { bytes };
        bytes.next_multiple_of(align_of::<Entry<K, V>>())
    };

    /// The bits of all entries.
    pub(super) const ALL: u64 = (1 << Self::SLOTS) - 1;

    /// # Safety
    ///
    /// `start` is the address of a bucket, aligned as its header and its entries are, whose memory
    /// stays valid for `'a`. All of it was zero at first, and has only been accessed as a bucket of
    /// this type.
    #[inline(always)]
    pub(super) unsafe fn new(start: NonNull<u8>) -> Bucket<'a, K, V> {
        Bucket {
            start,
            of: PhantomData,
        }
    }

    #[inline(always)]
    fn header(&self) -> &'a Header {
        // SAFETY: `new`'s caller promised that a bucket lies there for `'a`. It starts with a
        // header, all of which is atomic words.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    #[inline(always)]
    pub(super) fn word(&self) -> &'a StateWord {
        &self.header().state
    }

    #[inline(always)]
    pub(super) fn link(&self) -> &'a StableWord {
        &self.header().link
    }

    #[inline(always)]
    pub(super) fn entry(&self, slot: usize) -> &'a Entry<K, V> {
        debug_assert!(slot < Self::SLOTS);
        // SAFETY: as for `header`, with the entries behind it, at a multiple of their alignment.
        // All of them are atomic words.
        unsafe {
            let first = self.start.add(Self::ENTRIES).cast::<Entry<K, V>>();
            debug_assert!(first.is_aligned());
            first.add(slot).as_ref()
        }
    }

    /// Returns the state at a time when no k-CAS is under way.
    #[inline(always)]
    pub(super) fn state(&self) -> State {
        State(self.word().begin())
    }

    /// Returns whether all that was read since `state` was current at one time.
    #[inline(always)]
    pub(super) fn is_still(&self, state: State) -> bool {
        self.word().is_still(state.0, RESERVED)
    }

    #[inline(always)]
    pub(super) fn compare_exchange(&self, old: State, new: State) -> bool {
        self.word().compare_exchange(old.0, new.0)
    }

    /// Changes the state by `change` if only `reserved` has changed since. Returns the new state,
    /// or `None` if more has changed.
    #[inline(always)]
    pub(super) fn change(&self, since: State, change: impl Fn(State) -> State) -> Option<State> {
        let mut seen = since;
        loop {
            let new = change(seen);
            if self.compare_exchange(seen, new) {
                return Some(new);
            }
            seen = self.state();
            if !seen.is_same(since) {
                return None;
            }
        }
    }

    /// Reserves these entries for the caller, which alone writes them from now on. Returns whether
    /// it did: if the state is not `state` any more, nothing was changed.
    #[inline(always)]
    pub(super) fn reserve(&self, state: State, slots: u64) -> bool {
        let is_reserved =
            self.compare_exchange(state, state.with_reserved(state.reserved() | slots));
        // Release fence: pairs with the acquire fence in `is_still`. A reader that sees part of
        // what the caller writes to the entries also sees that they do not count any more.
        fence(Ordering::Release);
        is_reserved
    }

    /// Ends the reservation of entries that the caller has reserved and not made live.
    #[cold]
    pub(super) fn release(&self, slots: u64) {
        loop {
            let state = self.state();
            let released = state.with_reserved(state.reserved() & !slots);
            if self.compare_exchange(state, released) {
                return;
            }
        }
    }

    /// Writes an entry that the caller has reserved.
    #[inline(always)]
    pub(super) fn write(&self, slot: usize, key: K, value: V) {
        self.entry(slot).key.store(key);
        self.entry(slot).value.store(value);
    }
}

/// Iterates over the positions of the bits that are set.
#[inline(always)]
pub(super) fn slots(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = bits.trailing_zeros() as usize;
        let is_set = bits != 0;
        bits &= bits.wrapping_sub(1);
        is_set.then_some(slot)
    })
}
