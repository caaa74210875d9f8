//! Where free descriptors may be found: words of two levels, each with 32 bits and a count.
//!
//! ```text
//!              noting 32                         bits 32
//! a leaf:      threads that are just noting      of pages,   set: exhausted, no descriptor of the page is free
//! a summary:   that something is exhausted       of leaves,  set: all bits of the leaf are, and its count is 0
//! ```
//!
//! 1. A thread that has found nothing below a bit sets the bit and adds 1 to the count, by one
//!    exchange. Then it looks below once more, and clears the bit if there is something. At last it
//!    subtracts 1 from the count.
//! 2. A thread that has put something below a bit clears the bit if it is set.
//! 3. A search trusts the set bits of a word whose count is 0. Else it looks below each of them.
//!
//! All these steps are `SeqCst`, and so have one order. Suppose that a bit is set although there is
//! something below it that was put there by a thread whose step 2 has ended. Then step 2 came
//! before the bit was last set, so the second look of the thread that set it finds what is there.
//! That thread has not cleared the bit yet, and so it is still counted, in the very word that a
//! search loads.
//!
//! Thus no bit hides what is free, for a moment or for good, whatever becomes of the thread that
//! has set it. If it exits before it is done, the count stays, and each search that comes to that
//! word looks at its up to 32 pages or leaves itself.

use crate::sync::{AtomicU64, Ordering};

/// How many bits a word has.
const BITS: usize = u32::BITS as usize;

const EXHAUSTED: u64 = u32::MAX as u64;

/// One thread in the count.
const NOTING: u64 = 1 << BITS;

/// The hints for 32 pages, or for 32 leaves. Zeroed: there may be something below each.
#[derive(Debug)]
pub(crate) struct Hints(pub AtomicU64);

impl Hints {
    /// Sets a bit, and counts this thread.
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

    /// Ends what `set` has begun.
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

/// What hints say.
#[derive(Clone, Copy)]
struct Answer(u64);

impl Answer {
    /// Those below which there may be something, as far as the bits say.
    fn open(self) -> u64 {
        !self.0 & EXHAUSTED
    }

    /// Is there nothing below the others?
    fn is_certain(self) -> bool {
        self.0 < NOTING
    }

    /// Is there nothing below any?
    fn is_exhausted(self) -> bool {
        self.0 == EXHAUSTED
    }
}

/// The hints that lead to the pages of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct Map<'a> {
    pub pages: usize,
    pub leaves: &'a [Hints],
    pub summaries: &'a [Hints],
}

impl Map<'_> {
    /// How many leaves so many pages have, and how many summaries.
    pub fn sizes(pages: usize) -> (usize, usize) {
        let leaves = pages.div_ceil(BITS);
        (leaves, leaves.div_ceil(BITS))
    }

    /// Of zeroed hints: bits behind the last page and the last leaf lead nowhere.
    pub fn begin(&self) {
        let end = |hints: &[Hints], count: usize| {
            if let (Some(last), false) = (hints.last(), count.is_multiple_of(BITS)) {
                let behind = EXHAUSTED << (count % BITS) & EXHAUSTED;
                // Relaxed: no other thread knows the chunk yet.
                last.0.store(behind, Ordering::Relaxed);
            }
        };
        end(self.leaves, self.pages);
        end(self.summaries, self.leaves.len());
    }

    /// A page that may have free descriptors, the lowest one as far as the bits say. `None`: at one
    /// moment of the search each page had none.
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

    /// Looks for a page with something free without trusting its bit, and clears that.
    #[cold]
    fn look_below(&self, leaf: usize, mut has_free: impl FnMut(usize) -> bool) -> Option<usize> {
        let first = leaf * BITS;
        let found = (first..self.pages.min(first + BITS)).find(|&page| has_free(page))?;
        self.replenish(found);
        Some(found)
    }

    /// Notes that nothing was free in a page, unless something is by now.
    pub fn exhaust(&self, page: usize, has_free: impl FnOnce() -> bool) {
        let leaf = &self.leaves[page / BITS];
        leaf.set(1 << (page % BITS));
        if has_free() {
            self.replenish(page);
        }
        leaf.end();
    }

    /// Notes that a leaf was exhausted, unless it is not by now. An only leaf is looked at as
    /// quickly as its summary.
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

    /// Notes that something is free in a page.
    pub fn replenish(&self, page: usize) {
        let leaf = page / BITS;
        self.leaves[leaf].clear(1 << (page % BITS));
        self.summaries[leaf / BITS].clear(1 << (leaf % BITS));
    }
}

/// The numbers of the bits that are set, from the lowest up.
#[inline]
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros() as usize);
        word &= word.wrapping_sub(1);
        lowest
    })
}
