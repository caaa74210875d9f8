//! How long a page has been free.
//!
//! A trim records the tag of a page that it found all free, and when. A later trim that finds the
//! same tag knows that the page was free in between. Each may be delayed at any point and overtaken
//! by others; `moment` states the rules.

use super::free::{Free, PageState};
use super::moment::Moment;
use crate::sync::{AtomicU64, Ordering};

/// A trim's last observation of a page, as a word.
///
/// ```text
/// | tag of the page's word 32 | given back 1 | when 31 |
/// ```
#[derive(Clone, Copy)]
pub(super) struct Seen(u64);

const GIVEN_BACK: u64 = 1 << 31;

impl Seen {
    pub fn free(word: PageState, when: Moment) -> Seen {
        Seen(u64::from(word.tag) << 32 | u64::from(when.word()))
    }

    /// Encodes that the page was given back and has no memory.
    pub fn given_back(word: PageState) -> Seen {
        Seen(u64::from(word.tag) << 32 | GIVEN_BACK)
    }

    /// Returns whether the observation is of the page's present state.
    fn is_of(self, word: PageState) -> bool {
        (self.0 >> 32) as u32 == word.tag
    }

    /// Returns when the page was first seen free, or `None` if it has no memory.
    fn since(self) -> Option<Moment> {
        (self.0 & GIVEN_BACK == 0).then(|| Moment::of_word(self.0 as u32))
    }

    /// Records this for a page that the caller owns exclusively.
    pub fn note(self, noted: &AtomicU64) {
        // Release: pairs with the Acquire load in `free_for_longer`.
        noted.store(self.0, Ordering::Release);
    }
}

/// Returns the word of a page whose descriptors have all been free for longer than `stable`
/// milliseconds. If they have not, or it is not known, records since when they are free, for the
/// next call.
pub(super) fn free_for_longer(
    page: &impl Free,
    noted: &AtomicU64,
    now: impl Fn() -> Option<Moment>,
    stable: u32,
) -> Option<PageState> {
    let word = page.load();
    if word.used != 0 {
        return None;
    }
    // Acquire: orders the reading of the clock after this load; pairs with the Release exchange
    // below and the Release store in `note`.
    let seen = Seen(noted.load(Ordering::Acquire));
    // If the page has not changed, no other trim has recorded a newer state. If one does later, the
    // exchange below fails.
    if page.load() != word {
        return None;
    }
    let since = match seen.is_of(word) {
        true => Some(seen.since()?),
        false => None,
    };
    if stable == 0 {
        return Some(word);
    }
    let now = now()?;
    match since.and_then(|since| since.before(now)) {
        // Both moments were rounded down to milliseconds, so an equal difference may be a shorter
        // time.
        Some(free_for) => (free_for > stable).then_some(word),
        // Free since now at the latest.
        None => {
            let free = Seen::free(word, now);
            // The result does not matter: whatever is recorded then names the state of the page
            // that it belongs to. The exchange fails if another trim gave the page back, so that no
            // trim does so twice.
            let order = (Ordering::Release, Ordering::Relaxed);
            let _ = noted.compare_exchange(seen.0, free.0, order.0, order.1);
            None
        }
    }
}
