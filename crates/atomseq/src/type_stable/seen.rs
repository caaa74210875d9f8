//! How long a page has been free.
//!
//! A trim notes the tag of a page that it finds all free, and when that was. A later one that finds
//! the same tag knows that the page has been free all the time. Either may be held up anywhere, and
//! overtaken by others; `moment` has the rules.

use super::free::{Free, PageState};
use super::moment::Moment;
use crate::sync::{AtomicU64, Ordering};

/// What a trim has last seen of a page, as a word.
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

    /// The page has no memory.
    pub fn given_back(word: PageState) -> Seen {
        Seen(u64::from(word.tag) << 32 | GIVEN_BACK)
    }

    /// Is it of the page as it is?
    fn is_of(self, word: PageState) -> bool {
        (self.0 >> 32) as u32 == word.tag
    }

    /// When it was first seen free as it is; none if it has no memory.
    fn since(self) -> Option<Moment> {
        (self.0 & GIVEN_BACK == 0).then(|| Moment::of_word(self.0 as u32))
    }

    /// Notes it about a page that nobody else has.
    pub fn note(self, noted: &AtomicU64) {
        // Release: as below.
        noted.store(self.0, Ordering::Release);
    }
}

/// The word of a page all of whose descriptors have been free for longer than so many milliseconds.
/// If they have not, or it is not known, notes since when they are, for the next call.
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
    // Acquire: the clock is read after it; pairs with the release below.
    let seen = Seen(noted.load(Ordering::Acquire));
    // As long as the page is as it was, no other trim has noted anything since; if one does from
    // here on, the exchange below fails.
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
        // Both times were cut to whole milliseconds, so an equal distance may have been a shorter
        // one.
        Some(free_for) => (free_for > stable).then_some(word),
        // Free since now at the latest.
        None => {
            let free = Seen::free(word, now);
            // Failing or not: whatever is noted then says for itself which state of the page it is
            // of. It fails if another trim has given the page back, so that none does so again.
            let order = (Ordering::Release, Ordering::Relaxed);
            let _ = noted.compare_exchange(seen.0, free.0, order.0, order.1);
            None
        }
    }
}
