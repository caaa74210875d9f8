//! The tree of GC96, section 5.2, of 128, 128 and 64, without any synchronization, and behind a
//! lock of readers and writers.

use std::sync::{PoisonError, RwLock};

use crossbeam_utils::CachePadded;

use crate::bench::workloads::paging::{Paged, fill};

type Leaf = [Option<u64>; 64];
type Table = [Option<Box<Leaf>>; 128];

/// The tree.
pub struct PageTree {
    children: [Option<Box<Table>>; 128],
}

impl PageTree {
    /// One with the entries of the workload.
    pub fn filled(is_whole: bool) -> Box<Self> {
        let mut tree = Box::new(Self {
            children: [const { None }; 128],
        });
        fill(is_whole, |page, entry| tree.insert(page, entry));
        tree
    }

    fn insert(&mut self, page: u64, entry: u64) {
        let [child, table, index] = indices(page);
        let table_of = || Box::new([const { None }; 128]);
        let leaf = &mut self.children[child].get_or_insert_with(table_of)[table];
        leaf.get_or_insert_with(|| Box::new([None; 64]))[index] = Some(entry);
    }
}

#[inline(always)]
fn indices(page: u64) -> [usize; 3] {
    let page = page as usize;
    [page / 8192 % 128, page / 64 % 128, page % 64]
}

impl Paged for Box<PageTree> {
    #[inline(always)]
    fn get(&self, page: u64) -> Option<u64> {
        let [child, table, index] = indices(page);
        self.children[child].as_ref()?[table].as_ref()?[index]
    }
}

/// The same behind `std::sync::RwLock`.
pub struct Locked(CachePadded<RwLock<Box<PageTree>>>);

impl Locked {
    /// One with the entries of the workload.
    pub fn filled(is_whole: bool) -> Self {
        Self(CachePadded::new(RwLock::new(PageTree::filled(is_whole))))
    }
}

impl Paged for Locked {
    #[inline(always)]
    fn get(&self, page: u64) -> Option<u64> {
        let tree = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tree.get(page)
    }
}
