//! `page-map`: entries of pages that are looked up.

use atomseq::dcas::Mechanism;
use atomseq::nonblocking::PageMap;

use super::{Experiment, Method, Threads, cases};
use crate::bench::peers::page_tree::{Locked, PageTree};
use crate::bench::workloads::paging::{Lookups, Paged, fill};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "page-map",
    about: "looking up the entry of a page at random, of the pages of 64 MiB in four regions, or of 4 GiB",
    cases: cases! {
        "64MiB:atomseq", "nonblocking::PageMap for 32-bit addresses, by the mechanism of this process, with the pages of 64 MiB",
            |threads| Lookups::<_, false>::boxed(threads, filled(false, PageMap::<u64>::new()));
        "64MiB:atomseq-48", "nonblocking::PageMap for 48-bit addresses, with the pages of 64 MiB",
            |threads| Lookups::<_, false>::boxed(threads, filled(false, PageMap::<u64, 48>::wide()));
        "64MiB:atomseq-kcas", "nonblocking::PageMap for 32-bit addresses by k-CAS, which is portable, with the pages of 64 MiB",
            |threads| Lookups::<_, false>::boxed(threads, filled(false, PageMap::<u64>::forced(Mechanism::Kcas)));
        "64MiB:unsynchronized", "the same tree of Box, which no thread changes, with the pages of 64 MiB",
            |threads| Lookups::<_, false>::boxed(threads, PageTree::filled(false));
        "64MiB:rwlock", "std::sync::RwLock of that tree, with the pages of 64 MiB",
            |threads| Lookups::<_, false>::boxed(threads, Locked::filled(false));
        "4GiB:atomseq", "nonblocking::PageMap for 32-bit addresses, by the mechanism of this process, with the pages of 4 GiB",
            |threads| Lookups::<_, true>::boxed(threads, filled(true, PageMap::<u64>::new()));
        "4GiB:atomseq-48", "nonblocking::PageMap for 48-bit addresses, with the pages of 4 GiB",
            |threads| Lookups::<_, true>::boxed(threads, filled(true, PageMap::<u64, 48>::wide()));
        "4GiB:atomseq-kcas", "nonblocking::PageMap for 32-bit addresses by k-CAS, which is portable, with the pages of 4 GiB",
            |threads| Lookups::<_, true>::boxed(threads, filled(true, PageMap::<u64>::forced(Mechanism::Kcas)));
        "4GiB:unsynchronized", "the same tree of Box, which no thread changes, with the pages of 4 GiB",
            |threads| Lookups::<_, true>::boxed(threads, PageTree::filled(true));
        "4GiB:rwlock", "std::sync::RwLock of that tree, with the pages of 4 GiB",
            |threads| Lookups::<_, true>::boxed(threads, Locked::filled(true));
    },
    peers: &["unsynchronized", "rwlock"],
    method: Method::Timed,
    threads: Threads::Spread,
    beside: None,
};

fn filled<const BITS: u32>(is_whole: bool, map: PageMap<u64, BITS>) -> PageMap<u64, BITS> {
    fill(is_whole, |page, entry| {
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
        for case in EXPERIMENT.make(1, |name| name.starts_with("64MiB:")) {
            case.subject.prepare(0).unwrap();
            case.subject.run(0, 64 * GRAIN);
            assert_eq!(case.subject.check(64 * GRAIN), Ok(()), "{}", case.name);
        }
    }
}
