//! Whether a place became vacant while threads looked for one.
//!
//! ```text
//! word:   even ──a thread is about to look (+1)──> odd ──a place has become vacant (+1)──> even
//! ```
//!
//! A search looks at one place after another. So it may find each of them taken although one was
//! vacant at every moment: a place that it has passed becomes vacant, and only then is the next one
//! taken. A search that finds nothing is right if the word did not change meanwhile:
//!
//! 1. A thread makes the word odd, searches, and looks at the word again.
//! 2. A thread that has made a place vacant then makes the word even, if it is odd.
//! 3. If the word did not change during a search, no place became vacant during it, step 2
//!    included. So each place that the search has found taken was still taken when the search
//!    ended, at least by a thread that was just making it vacant.
//!
//! Until a thread searches in vain, step 2 is a load of a word that nobody changes.
//!
//! The orderings: say that a thread makes a place vacant (`SeqCst`) and then loads the word
//! (`SeqCst`). If it finds the word as it was before step 1, the place was vacant before step 1 in
//! the order of all `SeqCst` operations, and the search (`SeqCst`) finds it so, or finds who took
//! it later. Else it has changed the word, or finds it changed. If it takes another place after
//! that (Release) and the search finds this taken (`SeqCst`, which includes Acquire), the second
//! look at the word comes later than the change, and finds it.

use crate::sync::{AtomicU64, Ordering};

/// Does a thread look for a vacant place?
const SOUGHT: u64 = 1;

/// On a cache line of its own, which stays with all CPUs as long as every search finds something.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Vacancies(AtomicU64);

impl Vacancies {
    pub fn new() -> Vacancies {
        Vacancies(AtomicU64::new(0))
    }

    /// Begins a search. If the result is that of the call before a search, no place became vacant
    /// during it.
    pub fn seek(&self) -> u64 {
        // SeqCst: pairs with the load in `report`.
        self.0.fetch_or(SOUGHT, Ordering::SeqCst) | SOUGHT
    }

    /// Reports that the caller has made a place vacant, by a `SeqCst` operation.
    #[inline]
    pub fn report(&self) {
        // SeqCst: pairs with the exchange in `seek`.
        let word = self.0.load(Ordering::SeqCst);
        if word & SOUGHT != 0 {
            self.change(word);
        }
    }

    #[cold]
    fn change(&self, word: u64) {
        // If it fails, another report has changed the word, and that is as good for every search
        // that began before this report. SeqCst: comes before what this thread takes later.
        let order = (Ordering::SeqCst, Ordering::Relaxed);
        let _ = self.0.compare_exchange(word, word + 1, order.0, order.1);
    }
}
