//! The workload of page maps: a thread looks up the entries of pages, one after the other, at
//! random.
//!
//! Either there are 16,384 pages in four regions, whose tables fit into a processor's cache, or all
//! pages of 32-bit addresses, whose leaves do not. Each entry follows from its page: a wrong one is
//! counted.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use fastrand::Rng;

use crate::bench::engine::Subject;
use crate::bench::fault::Fault;

/// How many pages have an entry: those of 64 MiB, or of 4 GiB.
const fn pages(is_whole: bool) -> u64 {
    if is_whole { 1 << 20 } else { 1 << 14 }
}

/// Where the regions begin: those of a small program, its heap, its libraries and its stack.
const REGIONS: [u64; 4] = [0x0_8048, 0x1_9000, 0xb_7000, 0xb_f000];

/// A map whose entries are looked up.
pub trait Paged: Sync {
    /// A page's entry.
    fn get(&self, page: u64) -> Option<u64>;
}

/// A page by its number among those that have an entry.
#[inline(always)]
fn page(is_whole: bool, number: u64) -> u64 {
    if is_whole {
        return number;
    }
    let size = pages(is_whole) / REGIONS.len() as u64;
    REGIONS[(number / size) as usize % REGIONS.len()] + number % size
}

#[inline(always)]
fn entry(page: u64) -> u64 {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Calls `insert` with each page and its entry.
pub fn fill(is_whole: bool, mut insert: impl FnMut(u64, u64)) {
    let numbers = 0..pages(is_whole);
    let pages = numbers.map(|number| page(is_whole, number));
    pages.for_each(|page| insert(page, entry(page)));
}

/// A map under this workload.
pub struct Lookups<M, const IS_WHOLE: bool> {
    map: M,
    hands: Vec<CachePadded<Mutex<Hand>>>,
}

struct Hand {
    rng: Rng,
    looked_up: u64,
    wrong: u64,
}

impl<M: Paged + 'static, const IS_WHOLE: bool> Lookups<M, IS_WHOLE> {
    /// The subject for that many threads, with a map that is filled.
    pub fn boxed(threads: usize, map: M) -> Box<dyn Subject> {
        let hand = |thread: u64| {
            CachePadded::new(Mutex::new(Hand {
                // A fixed seed: two benchmarks of one machine differ by the machine only.
                rng: Rng::with_seed(thread + 1),
                looked_up: 0,
                wrong: 0,
            }))
        };
        let hands = (0..threads as u64).map(hand).collect();
        Box::new(Self { map, hands })
    }
}

impl<M: Paged + 'static, const IS_WHOLE: bool> Subject for Lookups<M, IS_WHOLE> {
    fn run(&self, thread: usize, operations: u64) {
        let mut hand = self.hands[thread]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut wrong = 0;
        for _ in 0..operations {
            let page = page(IS_WHOLE, hand.rng.u64(..) % pages(IS_WHOLE));
            let found = self.map.get(black_box(page));
            wrong += u64::from(found != Some(entry(page)));
        }
        hand.wrong += wrong;
        hand.looked_up += operations;
    }

    fn check(&self, operations: u64) -> Result<(), Fault> {
        let hands = self.hands.iter();
        let hands = hands.map(|hand| hand.lock().unwrap_or_else(PoisonError::into_inner));
        let (looked_up, wrong) = hands.fold((0, 0), |(looked_up, wrong), hand| {
            (looked_up + hand.looked_up, wrong + hand.wrong)
        });
        if (looked_up, wrong) == (operations, 0) {
            return Ok(());
        }
        let sentence = format!("{wrong} of {looked_up} entries were wrong");
        Err(Fault::count(operations, [looked_up - wrong], sentence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    /// Has every entry but those of some pages.
    struct Patchy(u64);

    impl Paged for Patchy {
        fn get(&self, page: u64) -> Option<u64> {
            (page % 16 >= self.0).then(|| entry(page))
        }
    }

    #[test]
    fn the_check_finds_missing_entries() {
        for (patches, is_right) in [(0, true), (8, false)] {
            let case = Lookups::<_, false>::boxed(1, Patchy(patches));
            case.run(0, GRAIN);
            assert_eq!(case.check(GRAIN).is_ok(), is_right);
        }
    }

    #[test]
    fn each_page_comes_once() {
        for is_whole in [false, true] {
            let mut all = std::collections::BTreeSet::new();
            fill(is_whole, |page, _| assert!(all.insert(page)));
            assert_eq!(all.len() as u64, pages(is_whole));
            assert!(all.into_iter().all(|page| page < 1 << 20));
        }
    }
}
