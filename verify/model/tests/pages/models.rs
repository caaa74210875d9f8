//! The models: what threads do, and what has to be true in the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use shuttle::thread;

use super::free::{Free, Word};
use super::hints::{EXHAUSTED, Path};
use super::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};
use super::{Orders, fails, holds};

const MANY: Orders = Orders::Many(10_000);

/// A page, and the bits that lead to it: the last of its leaf word that are not set.
struct Page {
    word: AtomicU64,
    links: Vec<AtomicU32>,
    leaf: AtomicU64,
    summary: AtomicU64,
    protected: Protected,
}

/// What keeps the page right; all of it in the library.
#[derive(Clone, Copy)]
struct Protected {
    by_tags: bool,
    by_second_looks: bool,
}

const FULLY: Protected = Protected {
    by_tags: true,
    by_second_looks: true,
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

    /// As in the library, or with every tag 0.
    fn exchange(&self, old: Word, new: Word) -> bool {
        let tag = if self.protected.by_tags { new.tag } else { 0 };
        let new = Word { tag, ..new }.word();
        self.word
            .compare_exchange(old.word(), new, SeqCst, SeqCst)
            .is_ok()
    }
}

const BIT: u64 = 1 << 5;

impl Page {
    fn new(capacity: usize, protected: Protected) -> Arc<Page> {
        Arc::new(Page {
            word: AtomicU64::new(0),
            links: (0..capacity).map(|_| AtomicU32::new(0)).collect(),
            leaf: AtomicU64::new(EXHAUSTED & !BIT),
            summary: AtomicU64::new(0),
            protected,
        })
    }

    fn path(&self) -> Path<'_> {
        Path {
            leaf: &self.leaf,
            leaf_bit: BIT,
            summary: &self.summary,
            summary_bit: BIT,
        }
    }

    fn take(&self, most: usize) -> Vec<usize> {
        let mut taken = vec![0; most];
        let count = self.take_free(&mut taken);
        taken
            .iter()
            .take(count)
            .map(|&index| usize::from(index))
            .collect()
    }

    /// As `Shared::take` does it: who leaves nothing notes it.
    fn take_and_note(&self, most: usize) -> Vec<usize> {
        let taken = self.take(most);
        if !self.has_free() {
            if self.protected.by_second_looks {
                self.path().exhaust(|| self.has_free());
            } else if self.leaf.fetch_or(BIT, SeqCst) | BIT == EXHAUSTED {
                self.summary.fetch_or(BIT, SeqCst);
            }
        }
        taken
    }

    /// As `Shared::put` does it.
    fn put_and_note(&self, index: usize) {
        self.put(index);
        self.path().replenish();
    }

    /// Nothing is there twice, and nothing is lost.
    fn check_all(&self, mut taken: Vec<usize>) {
        let used = usize::from(self.load().used);
        assert_eq!(used, taken.len(), "the count is wrong");
        taken.extend(self.take(self.capacity()));
        let distinct: BTreeSet<_> = taken.iter().collect();
        assert_eq!(distinct.len(), taken.len(), "one was given twice");
        assert_eq!(taken.len(), self.capacity(), "one was lost");
    }

    /// What is free can be found.
    fn check_bits(&self) {
        if self.has_free() {
            assert_eq!(
                self.leaf.load(SeqCst) & BIT,
                0,
                "nobody looks into the page"
            );
            assert_eq!(
                self.summary.load(SeqCst) & BIT,
                0,
                "nobody looks at the leaf"
            );
        }
    }
}

/// One takes while another takes all, and puts them back in another order but with the same first: the word that the first
/// has loaded comes back, and the links that it has read are of another list.
fn same_first(protected: Protected) {
    let page = Page::new(3, protected);
    let other = Arc::clone(&page);
    let taking = thread::spawn(move || other.take(1));
    let mut kept = page.take(3);
    // All three, unless the other one was faster.
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

/// The last one is taken, and noted, while it or another one is put back.
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

/// Two note at the same time that there is nothing.
#[test]
fn what_is_free_is_found_after_two_have_found_nothing() {
    holds("exhausted twice and replenished", MANY, || {
        let page = Page::new(1, FULLY);
        let first = page.take(1);
        let (one, other) = (Arc::clone(&page), Arc::clone(&page));
        let noting = thread::spawn(move || one.path().exhaust(|| one.has_free()));
        let again = thread::spawn(move || other.path().exhaust(|| other.has_free()));
        first.iter().for_each(|&index| page.put_and_note(index));
        noting.join().unwrap();
        again.join().unwrap();
        page.check_bits();
        page.check_all(Vec::new());
    });
}
