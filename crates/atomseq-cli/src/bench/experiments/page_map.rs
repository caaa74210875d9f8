//! `page-map`: entries of pages that are looked up.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::PageMap;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::page_tree::{Locked, PageTree};
use crate::bench::workloads::paging::{Lookups, Paged, fill};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "page-map",
    about: "looking up the entry of a page, of 16,384 pages in four regions, at random",
    cases: cases! {
        "atomseq", "nonblocking::PageMap for 32-bit addresses, by the mechanism of this process",
            |threads| Lookups::boxed(threads, filled(PageMap::<u64>::new()));
        "atomseq-48", "nonblocking::PageMap for 48-bit addresses",
            |threads| Lookups::boxed(threads, filled(PageMap::<u64, 48>::wide()));
        "atomseq-kcas", "nonblocking::PageMap for 32-bit addresses by k-CAS, which is portable",
            |threads| Lookups::boxed(threads, filled(PageMap::<u64>::forced(Mechanism::Kcas)));
        "unsynchronized", "the same tree of Box, which no thread changes",
            |threads| Lookups::boxed(threads, PageTree::filled());
        "rwlock", "std::sync::RwLock of that tree",
            |threads| Lookups::boxed(threads, Locked::filled());
    },
    peers: &["unsynchronized", "rwlock"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

fn filled<const BITS: u32>(map: PageMap<u64, BITS>) -> PageMap<u64, BITS> {
    fill(|page, entry| {
        _ = map
            .insert(page, entry)
            .expect("there is memory for a table")
    });
    map
}

impl<const BITS: u32> Paged for PageMap<u64, BITS> {
    #[inline(always)]
    fn get(&self, page: u64) -> Option<u64> {
        Self::get(self, page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::engine::GRAIN;

    #[test]
    fn every_map_finds_every_entry() {
        for case in EXPERIMENT.make(1, |_| true) {
            case.subject.prepare(0).unwrap();
            case.subject.run(0, 64 * GRAIN);
            assert_eq!(case.subject.check(64 * GRAIN), Ok(()), "{}", case.name);
        }
    }
}
