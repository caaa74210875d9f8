//! The models: the threads' actions, and the invariants at the end.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use verify_model::controls::shuttle_thread as thread;

use super::free::{Free, PageState};
use super::hints::{Hints, Map};
use super::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};
use super::{Orders, fails, holds};

const MANY: Orders = Orders::Many(10_000);

/// In three runs, the control of summaries was detected after up to 613 random orders, each other
/// control after less than 100.
const MORE: Orders = Orders::Many(100_000);

/// The only page of two leaves that is not exhausted, and the hints that lead to it.
struct Page {
    word: AtomicU64,
    links: Vec<AtomicU32>,
    leaves: [Hints; 2],
    summaries: [Hints; 1],
    protected: Protected,
}

/// The protections of the page; the library has all of them.
#[derive(Clone, Copy)]
struct Protected {
    by_tags: bool,
    by_second_looks: bool,
    /// Whether a thread that sets the bit of a page is counted.
    by_counts_of_leaves: bool,
    /// Whether a thread that sets the bit of a leaf is counted.
    by_counts_of_summaries: bool,
    /// Whether the bit of a leaf asserts that no thread is counted there.
    by_certainty: bool,
}

const FULLY: Protected = Protected {
    by_tags: true,
    by_second_looks: true,
    by_counts_of_leaves: true,
    by_counts_of_summaries: true,
    by_certainty: true,
};

impl Free for Page {
    fn word(&self) -> &AtomicU64 {
        &self.word
    }

    fn link(&self, index: usize) -> &AtomicU32 {
        &self.links[index]
    }

    fn capacity(&self) -> usize {
        self.links.len()
    }

    /// Exchanges as the library does, or with every tag 0.
    fn exchange(&self, old: PageState, new: PageState) -> bool {
        let tag = if self.protected.by_tags { new.tag } else { 0 };
        let new = PageState { tag, ..new }.word();
        self.word
            .compare_exchange(old.word(), new, SeqCst, SeqCst)
            .is_ok()
    }
}

/// The page's index in the first leaf.
const PAGE: usize = 5;
const BIT: u64 = 1 << PAGE;

const LEAF_BIT: u64 = 1;
const EXHAUSTED: u64 = u32::MAX as u64;
const NOTING: u64 = 1 << 32;

impl Page {
    fn new(capacity: usize, protected: Protected) -> Arc<Page> {
        Arc::new(Page {
            word: AtomicU64::new(0),
            links: (0..capacity).map(|_| AtomicU32::new(0)).collect(),
            leaves: [EXHAUSTED & !BIT, EXHAUSTED].map(|bits| Hints(AtomicU64::new(bits))),
            summaries: [Hints(AtomicU64::new(EXHAUSTED & !LEAF_BIT))],
            protected,
        })
    }

    fn map(&self) -> Map<'_> {
        Map {
            pages: 64,
            leaves: &self.leaves,
            summaries: &self.summaries,
        }
    }

    /// Follows `Shared::take`, for one descriptor.
    fn allocate(&self) -> Option<usize> {
        while self.available() {
            if let Some(&taken) = self.take_and_note(1).first() {
                return Some(taken);
            }
        }
        None
    }

    /// Follows `Chunk::available`. A thread that finds the leaf exhausted records that.
    fn available(&self) -> bool {
        if !self.protected.by_counts_of_summaries || !self.protected.by_certainty {
            self.note_leaf();
        }
        let found = self.map().available(|page| page == PAGE && self.has_free());
        found.is_some_and(|page| {
            assert_eq!(page, PAGE);
            true
        })
    }

    /// Follows `Map::exhaust_leaf`, without a protection.
    fn note_leaf(&self) {
        let [summary] = &self.summaries;
        let count = match self.protected.by_counts_of_summaries {
            true => NOTING,
            false => 0,
        };
        let is_exhausted = || match self.protected.by_certainty {
            true => self.leaves[0].0.load(SeqCst) == EXHAUSTED,
            false => self.leaves[0].0.load(SeqCst) & EXHAUSTED == EXHAUSTED,
        };
        if is_exhausted() && summary.0.load(SeqCst) & LEAF_BIT == 0 {
            self.set(summary, LEAF_BIT, count);
            if !is_exhausted() {
                summary.0.fetch_and(!LEAF_BIT, SeqCst);
            }
            summary.0.fetch_sub(count, SeqCst);
        }
    }

    fn set(&self, hints: &Hints, bit: u64, count: u64) {
        let set = |word| Some((word | bit) + count);
        hints.0.fetch_update(SeqCst, SeqCst, set).expect("a word");
    }

    /// Follows `Chunk::exhaust`, or omits a protection.
    fn note(&self) {
        let protected = self.protected;
        if protected.by_second_looks && protected.by_counts_of_leaves {
            return self.map().exhaust(PAGE, || self.has_free());
        }
        self.set(&self.leaves[0], BIT, 0);
        if protected.by_second_looks && self.has_free() {
            self.map().replenish(PAGE);
        }
    }

    fn take(&self, max: usize) -> Vec<usize> {
        let mut taken = vec![0; max];
        let count = self.take_free(&mut taken);
        taken
            .iter()
            .take(count)
            .map(|&index| usize::from(index))
            .collect()
    }

    /// Takes descriptors; a thread that leaves none records that.
    fn take_and_note(&self, max: usize) -> Vec<usize> {
        let taken = self.take(max);
        if !self.has_free() {
            self.note();
        }
        taken
    }

    /// Follows `Shared::put`.
    fn put_and_note(&self, index: usize) {
        self.put(index);
        self.map().replenish(PAGE);
    }

    /// Checks that nothing is duplicated, and nothing is lost.
    fn check_all(&self, mut taken: Vec<usize>) {
        let used = usize::from(self.load().used);
        assert_eq!(used, taken.len(), "the count is wrong");
        taken.extend(self.take(self.capacity()));
        let distinct: BTreeSet<_> = taken.iter().collect();
        assert_eq!(distinct.len(), taken.len(), "one was given twice");
        assert_eq!(taken.len(), self.capacity(), "one was lost");
    }

    /// Checks that free descriptors can be found without loading the page.
    fn check_bits(&self) {
        let (leaf, summary) = (
            self.leaves[0].0.load(SeqCst),
            self.summaries[0].0.load(SeqCst),
        );
        if self.has_free() {
            assert_eq!(leaf & BIT, 0, "the hint skips the page");
            assert_eq!(summary & LEAF_BIT, 0, "the hint skips the leaf");
        }
        assert_eq!(
            (leaf | summary) / NOTING,
            0,
            "no thread is recording any more"
        );
    }
}

/// One thread takes while another takes all, and puts them back in another order but with the same
/// first: the word that the first thread has loaded recurs, and the links that it has read belong
/// to another list.
fn same_first(protected: Protected) {
    let page = Page::new(3, protected);
    let other = Arc::clone(&page);
    let taking = thread::spawn(move || other.take(1));
    let mut kept = page.take(3);
    // All three, unless the other thread was faster.
    kept.rotate_left(1);
    kept.drain(..).for_each(|index| page.put(index));
    page.check_all(taking.join().unwrap());
}

#[test]
fn what_is_taken_and_put_back_meanwhile_is_found_out() {
    holds("a list with the same first", MANY, || same_first(FULLY));
}

#[test]
fn without_tags_one_is_given_twice_or_lost() {
    let protected = Protected {
        by_tags: false,
        ..FULLY
    };
    fails(
        "a list with the same first, without tags",
        Orders::Every,
        move || {
            same_first(protected);
        },
    );
}

#[test]
fn takers_and_putters_share_a_page() {
    holds("two takers and a putter", Orders::Every, || {
        let page = Page::new(3, FULLY);
        let first = page.take(1);
        let (one, other) = (Arc::clone(&page), Arc::clone(&page));
        let taking = thread::spawn(move || one.take(2));
        let putting = thread::spawn(move || first.iter().for_each(|&index| other.put(index)));
        let taken = taking.join().unwrap();
        putting.join().unwrap();
        page.check_all(taken);
    });
}

/// A thread takes the last descriptor, and records that, while it or another one is put back.
fn exhausted_and_replenished(protected: Protected) {
    let page = Page::new(2, protected);
    let first = page.take_and_note(1);
    let (one, other) = (Arc::clone(&page), Arc::clone(&page));
    let taking = thread::spawn(move || one.take_and_note(1));
    let putting = thread::spawn(move || first.iter().for_each(|&index| other.put_and_note(index)));
    let taken = taking.join().unwrap();
    putting.join().unwrap();
    page.check_bits();
    page.check_all(taken);
}

#[test]
fn what_is_free_is_found() {
    holds("exhausted and replenished", MANY, || {
        exhausted_and_replenished(FULLY);
    });
}

#[test]
fn without_second_looks_nobody_finds_what_is_free() {
    let protected = Protected {
        by_second_looks: false,
        ..FULLY
    };
    fails(
        "exhausted and replenished, without second looks",
        MANY,
        move || {
            exhausted_and_replenished(protected);
        },
    );
}

/// Two threads record at the same time that there is none.
#[test]
fn what_is_free_is_found_after_two_have_found_nothing() {
    holds("exhausted twice and replenished", MANY, || {
        let page = Page::new(1, FULLY);
        let first = page.take(1);
        let (one, other) = (Arc::clone(&page), Arc::clone(&page));
        let noting = thread::spawn(move || one.note());
        let again = thread::spawn(move || other.note());
        first.iter().for_each(|&index| page.put_and_note(index));
        noting.join().unwrap();
        again.join().unwrap();
        page.check_bits();
        page.check_all(Vec::new());
    });
}

/// Two descriptors. While one thread takes one, and another thread looks for a free one and takes
/// none, a third thread puts the other one back: whenever it allocates after that, one is free.
fn exhausted_while_another_one_allocates(protected: Protected) {
    let page = Page::new(2, protected);
    let [mut mine] = page.take_and_note(1)[..] else {
        unreachable!("two are free");
    };
    let (one, other) = (Arc::clone(&page), Arc::clone(&page));
    let taking = thread::spawn(move || one.take_and_note(1));
    let looking = thread::spawn(move || other.available());
    for _round in 0..2 {
        page.put_and_note(mine);
        mine = page.allocate().expect("one of two is free");
    }
    page.put_and_note(mine);
    let taken = taking.join().unwrap();
    looking.join().unwrap();
    page.check_bits();
    page.check_all(taken);
}

#[test]
fn what_is_free_is_found_at_any_time() {
    holds("exhausted while another one allocates", MORE, || {
        exhausted_while_another_one_allocates(FULLY);
    });
}

#[test]
fn without_any_one_protection_it_is_not_found_at_times() {
    for (without, protected) in [
        (
            "counts of leaves",
            Protected {
                by_counts_of_leaves: false,
                ..FULLY
            },
        ),
        (
            "counts of summaries",
            Protected {
                by_counts_of_summaries: false,
                ..FULLY
            },
        ),
        (
            "certainty",
            Protected {
                by_certainty: false,
                ..FULLY
            },
        ),
        (
            "second looks",
            Protected {
                by_second_looks: false,
                ..FULLY
            },
        ),
    ] {
        let name = format!("exhausted while another one allocates, without {without}");
        fails(&name, MORE, move || {
            exhausted_while_another_one_allocates(protected);
        });
    }
}

/// The thread that records exhaustion exits before it looks again.
fn exhauster_exits(protected: Protected) {
    let page = Page::new(1, protected);
    let first = page.take(1)[0];
    let one = Arc::clone(&page);
    let noting = thread::spawn(move || match one.protected.by_counts_of_leaves {
        true => {
            // Its actions before the second look, and no more.
            let never_again = || resume_unwind(Box::new("exits"));
            let exited = catch_unwind(AssertUnwindSafe(|| one.map().exhaust(PAGE, never_again)));
            assert!(exited.is_err());
        }
        false => one.set(&one.leaves[0], BIT, 0),
    });
    page.put_and_note(first);
    for _round in 0..2 {
        let taken = page.allocate().expect("the only one is free");
        page.put_and_note(taken);
    }
    noting.join().unwrap();
    let taken = page.allocate().expect("the only one is free");
    page.check_all(vec![taken]);
}

#[test]
fn what_is_free_is_found_after_an_exhauster_has_exited() {
    holds("an exhauster exits", MANY, || exhauster_exits(FULLY));
}

#[test]
fn without_counts_what_an_exhauster_leaves_is_lost() {
    let protected = Protected {
        by_counts_of_leaves: false,
        ..FULLY
    };
    fails("an exhauster exits, without counts", MANY, move || {
        exhauster_exits(protected);
    });
}
