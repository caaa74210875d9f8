//! Detects whether a place became vacant during a search.
//!
//! ```text
//! word:   even ──a thread is about to look (+1)──> odd ──a place has become vacant (+1)──> even
//! ```
//!
//! A search visits one place after another. It may find each place taken although one was vacant at
//! every moment: a place becomes vacant after the search has passed it, and only then is the next
//! one taken. A failed search is valid if the word did not change during it:
//!
//! 1. A searching thread makes the word odd, searches, and reads the word again.
//! 2. A thread that has vacated a place then makes the word even, if it is odd.
//! 3. If the word did not change during a search, no vacating, including its step 2, took place
//!    within it. Each place that the search found taken was then still taken when the search ended,
//!    if only by a thread that was just vacating it.
//!
//! Until a search fails, step 2 is a load of a word that does not change.
//!
//! The orderings: assume a thread vacates a place (`SeqCst`) and then loads the word (`SeqCst`). If
//! it reads the value before step 1, the vacating precedes step 1 in the total order of `SeqCst`
//! operations. The search (`SeqCst`) then finds the place vacant, or taken by a later taker.
//! Otherwise the thread changes the word or finds it changed. If it then takes another place
//! (Release) and the search finds that one taken (`SeqCst`, which includes Acquire), the second
//! read of the word comes after the change and sees it.

use crate::sync::{AtomicU64, Ordering};

/// Set while a thread searches for a vacant place.
const SOUGHT: u64 = 1;

/// A cache line of its own, which stays shared by all CPUs as long as no search fails.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Vacancies(AtomicU64);

impl Vacancies {
    pub fn new() -> Vacancies {
        Vacancies(AtomicU64::new(0))
    }

    /// Starts a search. If this returns the same value before and after a search, no place became
    /// vacant during it.
    pub fn seek(&self) -> u64 {
        // SeqCst: pairs with the SeqCst load in `report`.
        self.0.fetch_or(SOUGHT, Ordering::SeqCst) | SOUGHT
    }

    /// Reports that the caller has vacated a place with a `SeqCst` operation.
    #[inline]
    pub fn report(&self) {
        // SeqCst: pairs with the SeqCst exchange in `seek`.
        let word = self.0.load(Ordering::SeqCst);
        if word & SOUGHT != 0 {
            self.change(word);
        }
    }

    #[cold]
    fn change(&self, word: u64) {
        // If this fails, another report has changed the word, which serves every search that
        // started before this report. SeqCst: precedes what this thread takes later; pairs with the
        // SeqCst exchange in `seek`. Relaxed: a failure needs no order.
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self.0.compare_exchange(word, word + 1, order.0, order.1);
    }
}
