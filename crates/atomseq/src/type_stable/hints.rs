//! Hints to pages with free descriptors: two levels of words, each with 32 bits and a count.
//!
//! ```text
//!              count 32                 bits 32
//! a leaf:      threads that are         of pages,   set: no descriptor of the page is free
//! a summary:   setting a bit now        of leaves,  set: all bits of the leaf are set, its count is 0
//! ```
//!
//! 1. A thread that found nothing free below a bit sets the bit and increments the count, in one
//!    atomic exchange. It then looks below the bit again, and clears the bit if something is free
//!    there. Finally it decrements the count.
//! 2. A thread that has freed something below a bit clears the bit if it is set.
//! 3. A search trusts the set bits of a word whose count is 0. Otherwise it looks below each of
//!    them.
//!
//! All these steps are `SeqCst` and thus have one total order. Assume a bit is set although a
//! thread whose step 2 has finished freed something below it. Step 2 then precedes the last set of
//! the bit, so the second look of the thread that set it finds the free descriptor. That thread has
//! not cleared the bit yet. It is therefore still counted in the word that a search loads.
//!
//! Thus no bit hides a free descriptor, even temporarily, whatever happens to the thread that set
//! it. If that thread exits in between, the count stays positive, and each search that reaches the
//! word looks at its up to 32 pages or leaves itself.

use crate::sync::{AtomicU64, Ordering};

/// The number of bits in a word.
const BITS: usize = u32::BITS as usize;

const EXHAUSTED: u64 = u32::MAX as u64;

/// The increment of the count for one thread.
const NOTING: u64 = 1 << BITS;

/// The hints for 32 pages, or for 32 leaves. All zeros: each may have something free.
#[derive(Debug)]
pub(crate) struct Hints(pub AtomicU64);

impl Hints {
    /// Sets a bit and increments the count, in one exchange.
    fn set(&self, bit: u64) {
        let mut word = self.0.load(Ordering::SeqCst);
        loop {
            let noted = (word | bit).wrapping_add(NOTING);
            let exchanged =
                self.0
                    .compare_exchange_weak(word, noted, Ordering::SeqCst, Ordering::SeqCst);
            match exchanged {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Decrements the count after `set`.
    fn end(&self) {
        self.0.fetch_sub(NOTING, Ordering::SeqCst);
    }

    fn clear(&self, bit: u64) {
        if self.0.load(Ordering::SeqCst) & bit != 0 {
            self.0.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    fn ask(&self) -> Answer {
        Answer(self.0.load(Ordering::SeqCst))
    }
}

/// The value of a hint word at the time of one load.
#[derive(Clone, Copy)]
struct Answer(u64);

impl Answer {
    /// Returns the bits that are not set: something may be free below them.
    fn open(self) -> u64 {
        !self.0 & EXHAUSTED
    }

    /// Returns whether nothing is free below the set bits.
    fn is_certain(self) -> bool {
        self.0 < NOTING
    }

    /// Returns whether nothing is free below any bit.
    fn is_exhausted(self) -> bool {
        self.0 == EXHAUSTED
    }
}

/// The hints for all pages of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Map<'a> {
    pub pages: usize,
    pub leaves: &'a [Hints],
    pub summaries: &'a [Hints],
}

impl Map<'_> {
    /// Returns the number of leaves and of summaries for so many pages.
    pub fn sizes(pages: usize) -> (usize, usize) {
        let leaves = pages.div_ceil(BITS);
        (leaves, leaves.div_ceil(BITS))
    }

    /// Initializes zeroed hints: sets the bits beyond the last page and the last leaf.
    pub fn begin(&self) {
        let end = |hints: &[Hints], count: usize| {
            if let (Some(last), false) = (hints.last(), count.is_multiple_of(BITS)) {
                let behind = EXHAUSTED << (count % BITS) & EXHAUSTED;
                // Relaxed: the chunk is not published yet, so no other thread reads it.
                last.0.store(behind, Ordering::Relaxed);
            }
        };
        end(self.leaves, self.pages);
        end(self.summaries, self.leaves.len());
    }

    /// Returns a page that may have free descriptors: the lowest according to the bits. `None`
    /// means that each page had none free at some moment of the search.
    #[inline]
    pub fn available(&self, has_free: impl Fn(usize) -> bool) -> Option<usize> {
        for (number, summary) in self.summaries.iter().enumerate() {
            let answer = summary.ask();
            if answer.is_exhausted() {
                continue;
            }
            let leaves = match answer.is_certain() {
                true => answer.open(),
                false => EXHAUSTED,
            };
            for leaf in ones(leaves).map(|bit| number * BITS + bit) {
                if leaf == self.leaves.len() {
                    break;
                }
                if let Some(page) = self.available_of(leaf, &has_free) {
                    return Some(page);
                }
            }
        }
        None
    }

    #[inline]
    fn available_of(&self, leaf: usize, has_free: impl Fn(usize) -> bool) -> Option<usize> {
        let answer = self.leaves[leaf].ask();
        if let Some(bit) = ones(answer.open()).next() {
            return Some(leaf * BITS + bit);
        }
        match answer.is_certain() {
            true => self.exhaust_leaf(leaf),
            false => return self.look_below(leaf, has_free),
        }
        None
    }

    /// Searches a leaf's pages without trusting their bits, and clears the bit of the page it
    /// finds.
    #[cold]
    fn look_below(&self, leaf: usize, mut has_free: impl FnMut(usize) -> bool) -> Option<usize> {
        let first = leaf * BITS;
        let found = (first..self.pages.min(first + BITS)).find(|&page| has_free(page))?;
        self.replenish(found);
        Some(found)
    }

    /// Records that a page has nothing free, unless something is free by now.
    pub fn exhaust(&self, page: usize, has_free: impl FnOnce() -> bool) {
        let leaf = &self.leaves[page / BITS];
        leaf.set(1 << (page % BITS));
        if has_free() {
            self.replenish(page);
        }
        leaf.end();
    }

    /// Records that a leaf is exhausted, unless it no longer is. A chunk with a single leaf needs
    /// no summary bit: loading the leaf costs as much as loading its summary.
    fn exhaust_leaf(&self, leaf: usize) {
        let (summary, bit) = (&self.summaries[leaf / BITS], 1 << (leaf % BITS));
        if self.leaves.len() > 1 && summary.ask().open() & bit != 0 {
            summary.set(bit);
            if !self.leaves[leaf].ask().is_exhausted() {
                summary.clear(bit);
            }
            summary.end();
        }
    }

    /// Records that a page has something free.
    pub fn replenish(&self, page: usize) {
        let leaf = page / BITS;
        self.leaves[leaf].clear(1 << (page % BITS));
        self.summaries[leaf / BITS].clear(1 << (leaf % BITS));
    }
}

/// Iterates over the numbers of the set bits, from the lowest up.
#[inline]
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        lowest
    })
}
