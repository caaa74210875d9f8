//! Wrong lists.

use atomseq::percpu::Area;

use super::Broken;
use crate::layout::CALLERS;
use crate::report::Fault;
use crate::structure::{answer, none};
use crate::structures::List;

const FIRST: usize = Area::FIRST_WORD;

mod stale_link {
    use super::FIRST;

    atomseq::sequence! {
        /// The caller has loaded the first node and its link before; only the first is compared
        /// again.
        pub(super) unsafe fn pop(slot: Slot, first: Word, next: Word) -> Option<Word> {
            if load(slot + FIRST) != first { return None }
            commit(slot + FIRST, next);
            Some(first)
        }
    }
}

mod no_end {
    use super::FIRST;

    atomseq::sequence! {
        /// Does not ask whether there is a node.
        pub(super) unsafe fn pop(slot: Slot) -> Option<Word> {
            let first = load(slot + FIRST);
            let next = load(first);
            commit(slot + FIRST, next);
            Some(first)
        }
    }
}

mod last_stays {
    use super::FIRST;

    atomseq::sequence! {
        /// Leaves early with a node that it has not taken.
        pub(super) unsafe fn pop(slot: Slot) -> Option<Word> {
            let first = load(slot + FIRST);
            if first == 0 { return None }
            let next = load(first);
            if next == 0 { return Some(first) }
            commit(slot + FIRST, next);
            Some(first)
        }
    }
}

mod not_linked {
    use super::FIRST;

    atomseq::sequence! {
        /// Trusts the link to be what it was when the node left.
        pub(super) unsafe fn push(slot: Slot, link: Word) {
            if load(slot + FIRST) == link { return }
            commit(slot + FIRST, link);
        }
    }
}

mod behind_the_first {
    use super::FIRST;

    atomseq::sequence! {
        /// Prepares the link of whichever node lies lower, which may be the one that everybody
        /// sees.
        pub(super) unsafe fn push(slot: Slot, link: Word) {
            let first = load(slot + FIRST);
            let place = min(first - 8, link - 8);
            prepare(place + 8, first);
            commit(slot + FIRST, link);
        }
    }
}

/// Nodes the caller may have seen in a list at some time, with what followed.
fn seen_before(_words: &[usize]) -> Vec<Vec<usize>> {
    let links = [CALLERS, CALLERS + 0x10];
    let pair = |first: usize, next: usize| vec![first, next];
    vec![
        pair(links[0], 0),
        pair(links[0], links[1]),
        pair(links[1], links[0]),
    ]
}

pub fn all() -> Vec<Broken> {
    vec![
        Broken::new(
            "the link was loaded outside the section",
            List,
            &stale_link::pop::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. } | Fault::Broken(_)),
        )
        .with_words(seen_before)
        .unless(|content, call, cpu| {
            let other = content[cpu].last() != call.passed.first();
            other.then(|| answer(none()))
        }),
        Broken::new(
            "an empty list is followed",
            List,
            &no_end::pop::MODEL,
            |fault| matches!(fault, Fault::Outside(span) if span.address == 0),
        ),
        Broken::new(
            "an early exit has not taken what it returns",
            List,
            &last_stays::pop::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. }),
        ),
        Broken::new(
            "the link is not prepared",
            List,
            &not_linked::push::MODEL,
            |fault| matches!(fault, Fault::WrongContent { .. } | Fault::Broken(_)),
        ),
        Broken::new(
            "a node in the list is prepared",
            List,
            &behind_the_first::push::MODEL,
            |fault| matches!(fault, Fault::VisibleBeforeCommit { .. } | Fault::Broken(_)),
        ),
    ]
}
