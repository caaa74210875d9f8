//! Unloading subtrees of a page map.

use super::tree::ChildRef;
use super::{ENTRIES, Leaf, PageMap, WIDTH, Words, entries_of, table_index};
use crate::dcas::StableWord;
use crate::nonblocking::nodes::until_unchanged;
use crate::nonblocking::plain::Plain;

impl<T: Plain, const BITS: u32> PageMap<T, BITS> {
    /// Takes out the entries of the 64 pages in whose leaf a page is, all at once, and frees the
    /// leaf. Then calls `write_back` with the number and the entry of each page that had one, in
    /// ascending order, and returns their count.
    ///
    /// Lookups go on meanwhile. One atomic instruction under OS-assisted DCAS, and one more for
    /// each two entries. A thread that is stopped or exits inside keeps the leaf and its entries.
    /// If `write_back` panics, the remaining entries are dropped.
    pub fn unload(&self, page: u64, mut write_back: impl FnMut(u64, T)) -> usize {
        let Some(child) = self.child(page) else {
            return 0;
        };
        let unlinked = until_unchanged(|| {
            let version = child.begin();
            let Some(leaf) = self.leaf(child, page) else {
                return child.check(version).map(|()| None);
            };
            // SAFETY: the link of a child leads to a table of this map's pool.
            let Some(table) = (unsafe { self.words_at(child.load(child.link())) }) else {
                return child.check(version).map(|()| None);
            };
            child.store(version, (&table[table_index(page)], 0))?;
            Ok(Some(leaf))
        });
        let Some(leaf) = unlinked else {
            return 0;
        };
        // SAFETY: this call alone has just unlinked the leaf.
        let entries = unsafe { self.free_leaf(child, leaf) };
        each(page & !(ENTRIES as u64 - 1), entries, &mut write_back)
    }

    /// Takes out the entries of the 8,192 pages below the same child of the root as a page, all at
    /// once, and frees their tables. Then calls `write_back` as [`unload`](PageMap::unload) does.
    ///
    /// The child itself stays, with its version (GC96, section 5.2).
    pub fn unload_subtree(&self, page: u64, mut write_back: impl FnMut(u64, T)) -> usize {
        let Some(child) = self.child(page) else {
            return 0;
        };
        let unlinked = until_unchanged(|| {
            let version = child.begin();
            // SAFETY: the link of a child leads to a table of this map's pool.
            let Some(table) = (unsafe { self.words_at(child.load(child.link())) }) else {
                return child.check(version).map(|()| None);
            };
            child.store(version, (child.link(), 0))?;
            Ok(Some(table))
        });
        let Some(table) = unlinked else {
            return 0;
        };
        let mut rest = Unlinked {
            map: self,
            child,
            table,
            next: 0,
        };
        let first = page & !((WIDTH * ENTRIES) as u64 - 1);
        let mut count = 0;
        while let Some((index, entries)) = rest.free_next() {
            count += each(first + (index * ENTRIES) as u64, entries, &mut write_back);
        }
        count
    }

    /// Clears and frees a leaf, and returns its entries.
    ///
    /// # Safety
    ///
    /// The caller alone has unlinked the leaf, or the table that links to it, below this child.
    unsafe fn free_leaf(&self, child: ChildRef<'_>, leaf: &Words) -> Leaf<T> {
        let entries = entries_of(child, leaf);
        // The second word of an entry has no meaning without the first.
        clear(child, leaf, 2);
        // SAFETY: the leaf was allocated from this pool, and `into_raw` left it to its table. The
        // caller promises that it owns the leaf.
        drop(unsafe { self.leaves.adopt(leaf) });
        entries
    }
}

/// Calls `write_back` with each entry that is present, of the pages from `first` on.
fn each<T: Plain>(first: u64, entries: Leaf<T>, write_back: &mut impl FnMut(u64, T)) -> usize {
    let mut count = 0;
    for (page, entry) in (first..).zip(entries) {
        if let Some(value) = entry {
            count += 1;
            write_back(page, value);
        }
    }
    count
}

/// Sets each `step`th word to zero. The caller owns them, and has unlinked them below this child.
fn clear(child: ChildRef<'_>, words: &Words, step: usize) {
    let mut others = words
        .iter()
        .step_by(step)
        .filter(|word| child.load(word) != 0);
    while let Some(first) = others.next() {
        let second: Option<&StableWord> = others.next();
        until_unchanged(|| {
            let version = child.begin();
            match second {
                Some(second) => child.store_both(version, (first, 0), (second, 0)),
                None => child.store(version, (first, 0)),
            }
        });
    }
}

/// A table that a thread has unlinked, of which it has freed the leaves before `next`. Frees the
/// rest when it is dropped.
struct Unlinked<'a, T: Plain, const BITS: u32> {
    map: &'a PageMap<T, BITS>,
    child: ChildRef<'a>,
    table: &'a Words,
    next: usize,
}

impl<T: Plain, const BITS: u32> Unlinked<'_, T, BITS> {
    /// Frees the next leaf, and returns its index and its entries.
    fn free_next(&mut self) -> Option<(usize, Leaf<T>)> {
        while self.next < WIDTH {
            let index = self.next;
            self.next += 1;
            // SAFETY: a link in a table leads to a leaf of this map's pool.
            let leaf = unsafe { self.map.words_at(self.child.load(&self.table[index])) };
            if let Some(leaf) = leaf {
                // SAFETY: this thread alone has unlinked the table.
                return Some((index, unsafe { self.map.free_leaf(self.child, leaf) }));
            }
        }
        None
    }
}

impl<T: Plain, const BITS: u32> Drop for Unlinked<'_, T, BITS> {
    fn drop(&mut self) {
        while self.free_next().is_some() {}
        clear(self.child, self.table, 1);
        // SAFETY: the table was allocated from this pool, and `into_raw` left it to its child. This
        // thread alone has unlinked it.
        drop(unsafe { self.map.tables.adopt(self.table) });
    }
}
