//! A map from page numbers to entries: a tree of tables, whose subtrees can be unloaded while
//! lookups go on (GC96, section 5.2).
//!
//! ```text
//! page number, 20 bits:   child 7 | table 7 | entry 6        of 36 bits: 16 more before them
//!
//! tree (128 children)     child: version, mechanism | link ──> table (128 links) ──> leaf (64 entries)
//!                         never deleted               unload_subtree                 unload
//!
//! get       begin: the child's version; link, link, entry; the version is unchanged
//! insert    begin; { entry: both words }             if the version is unchanged
//! remove    begin; { entry: first word = 0 }         if the version is unchanged
//! unload    begin; { link = 0 }                      if the version is unchanged; then the tables are cleared and freed
//! ```
//!
//! GC96 synchronizes a change of an entry by the version of its table's parent, which here is the
//! child of the root that it lies below. So a change fails if its leaf has been unloaded, although
//! it changes no link.
//!
//! Invariants:
//!
//! 1. Links and entries change only together with the version of their child, and no version
//!    recurs.
//! 2. Tables and leaves are memory of two types, from two pools. A link to a table leads to a
//!    table, and one in a table to a leaf, whatever has become of them since: a lookup that was
//!    overtaken by an unload loads words that do not count, but never takes an entry for a link.
//! 3. An unlinked table belongs to the thread that unlinked it, with the leaves below it: no other
//!    change at that version succeeds, and no valid lookup at a later version reaches them. It
//!    clears them, by changes that the child's version covers, before it frees them. So a free
//!    table or leaf holds zeros, and a new one is linked as it is.
//! 4. Children and the directories above them are never deleted while the map lives.

use std::fmt;
use std::mem::{MaybeUninit, size_of};
use std::ptr::with_exposed_provenance;

use super::nodes::{Changed, address, until_unchanged};
use super::plain::{self, Plain};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::or_panic::OrPanic;
use crate::type_stable::{Error, Pool};

mod tree;
mod unload;

use tree::{ChildRef, Trees};

/// The width of a table. A leaf has half as many entries, of two words each.
const WIDTH: usize = 128;

/// The number of entries of a leaf.
const ENTRIES: usize = WIDTH / 2;

/// A table of links to leaves, or a leaf.
type Words = [StableWord; WIDTH];

/// The number of bits of an offset in a page.
const OFFSET_BITS: u32 = 12;

/// A map from page numbers to entries, for pages of 4 KiB: the virtual-to-physical map of an
/// address space (GC96, section 5.2), or any other table of what belongs to each page.
///
/// It has three levels, of 128, 128 and 64, for 32-bit addresses. For 48-bit addresses, `BITS` is
/// 48, and a directory of such trees lies above them. Entries are [`Plain`], of up to 14 bytes.
///
/// The scope is `Machine`. Progress is that of the [mechanism](super#progress): no thread that is
/// preempted, stopped or has exited inside an operation blocks the others. A lookup costs no atomic
/// instruction; it is retried if another thread has changed an entry, or has added or unloaded a
/// table, in the same 8,192 pages (32 MiB of addresses) meanwhile. A change costs one change of two
/// words: one atomic instruction under OS-assisted DCAS, at most six under k-CAS, and as many for
/// each table that it adds.
///
/// Memory: 1 KiB and a header for each 64 pages and again for each 8,192 pages that have had an
/// entry since they were last unloaded. A subtree that is [unloaded](PageMap::unload) is reused at
/// once, and does not wait for lookups. A [limit](PageMap::try_with_limit) bounds this memory. No
/// limit bounds the 16 KiB for each 4 GiB of addresses where an insertion was tried: in a map for
/// 48-bit addresses that may be 1 GiB in all. All memory returns when the map is dropped, and
/// none before.
///
/// Every operation may be called in a signal handler, whatever it has interrupted. Operations with
/// a page number beyond the address space find nothing, and cannot insert.
///
/// ```
/// use atomseq::nonblocking::PageMap;
///
/// let pages = PageMap::<u64>::new();
/// pages.insert(0x1234, 7)?;
/// pages.insert(0x1235, 8)?;
/// assert_eq!(pages.get(0x1234), Some(7));
/// assert_eq!(pages.update(0x1234, |frame| frame | 1 << 63), Some(7));
///
/// // Takes the entries of 64 pages out at once, and writes them back.
/// let mut written = Vec::new();
/// pages.unload(0x1234, |page, frame| written.push((page, frame)));
/// assert_eq!(written, [(0x1234, 7 | 1 << 63), (0x1235, 8)]);
/// assert_eq!(pages.get(0x1235), None);
/// # Ok::<(), atomseq::type_stable::Error>(())
/// ```
pub struct PageMap<T: Plain, const BITS: u32 = 32> {
    trees: Trees<BITS>,
    tables: Pool<Words>,
    leaves: Pool<Words>,
    entries: std::marker::PhantomData<fn() -> T>,
}

/// The entries of the 64 pages of a leaf.
pub type Leaf<T> = [Option<T>; ENTRIES];

impl<T: Plain> PageMap<T> {
    /// Creates an empty map for 32-bit addresses: page numbers below 2^20.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    pub fn new() -> PageMap<T> {
        PageMap::made(crate::dcas::mechanism(), None).or_panic()
    }

    /// Creates an empty map for 32-bit addresses of up to `tables` tables for 64 pages, and as many
    /// for 8,192 pages, including those that are being added or unloaded: see
    /// [`Options::limit`](crate::type_stable::Options::limit).
    ///
    /// # Errors
    ///
    /// [`Error::Zero`], [`Error::TooLarge`], [`Error::OutOfMemory`].
    pub fn try_with_limit(tables: usize) -> Result<PageMap<T>, Error> {
        PageMap::made(crate::dcas::mechanism(), Some(tables))
    }

    /// Creates a map that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn forced(mechanism: Mechanism) -> PageMap<T> {
        PageMap::made(mechanism, None).or_panic()
    }
}

impl<T: Plain> PageMap<T, 48> {
    /// Creates an empty map for 48-bit addresses: page numbers below 2^36.
    ///
    /// ```
    /// let pages = atomseq::nonblocking::PageMap::<u64, 48>::wide();
    /// let stack = &raw const pages as u64 >> 12;
    /// pages.insert(stack, 1)?;
    /// assert_eq!(pages.get(stack), Some(1));
    /// # Ok::<(), atomseq::type_stable::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[track_caller]
    pub fn wide() -> PageMap<T, 48> {
        PageMap::made(crate::dcas::mechanism(), None).or_panic()
    }

    /// Creates an empty map for 48-bit addresses, with a [limit](PageMap::try_with_limit).
    ///
    /// # Errors
    ///
    /// As for [`try_with_limit`](PageMap::try_with_limit).
    pub fn try_wide_with_limit(tables: usize) -> Result<PageMap<T, 48>, Error> {
        PageMap::made(crate::dcas::mechanism(), Some(tables))
    }

    /// Creates a map that uses this mechanism whatever the process has chosen, for tests and
    /// comparisons.
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn wide_forced(mechanism: Mechanism) -> PageMap<T, 48> {
        PageMap::made(mechanism, None).or_panic()
    }
}

impl<T: Plain, const BITS: u32> PageMap<T, BITS> {
    /// The number of pages: page numbers are below it.
    pub const PAGES: u64 = 1 << (BITS - OFFSET_BITS);

    pub(super) fn made(
        mechanism: Mechanism,
        limit: Option<usize>,
    ) -> Result<PageMap<T, BITS>, Error> {
        const {
            assert!(BITS == 32 || BITS == 48, "addresses have 32 or 48 bits");
            assert!(
                size_of::<T>() <= 2 * BYTES,
                "an entry has at most 14 bytes: keep more elsewhere, and its number here"
            );
        }
        let pool = || match limit {
            Some(limit) => Pool::options().limit(limit).try_build(),
            None => Pool::options().try_build(),
        };
        Ok(PageMap {
            tables: pool()?,
            leaves: pool()?,
            trees: Trees::new(mechanism).ok_or(Error::OutOfMemory)?,
            entries: std::marker::PhantomData,
        })
    }

    /// Returns the entry of a page. No atomic instruction.
    #[inline(always)]
    pub fn get(&self, page: u64) -> Option<T> {
        self.get_from(page, |version| version)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`List::try_insert_between`](super::List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn get_between(&self, page: u64, mut gap: impl FnMut(Version) -> Version) -> Option<T> {
        self.get_from(page, |version| super::nodes::between(version, &mut gap))
    }

    #[inline(always)]
    fn get_from(&self, page: u64, mut gap: impl FnMut(Version) -> Version) -> Option<T> {
        if page >= Self::PAGES {
            return None;
        }
        match self.look_up(page, &mut gap) {
            Ok(value) => value,
            Err(_) => self.get_again(page, &mut gap),
        }
    }

    /// Looks the entry of a page up once under OS-assisted DCAS, and waits for no other thread.
    ///
    /// Callers inline it, so it has no code of k-CAS: its calls would take callers' registers.
    #[inline(always)]
    fn look_up(
        &self,
        page: u64,
        gap: &mut impl FnMut(Version) -> Version,
    ) -> Result<Option<T>, Changed> {
        let Some(place) = self.trees.place(page) else {
            return Ok(None);
        };
        let (version, child) = ChildRef::at_once(place).ok_or(Changed::Seen)?;
        self.entry_at(child, gap(version), page)
    }

    /// Looks the entry of a page up until nothing has changed meanwhile, by any mechanism.
    #[cold]
    #[inline(never)]
    fn get_again(&self, page: u64, gap: &mut impl FnMut(Version) -> Version) -> Option<T> {
        // Decided once, and not again at each load.
        match self.trees.mechanism() {
            Mechanism::Assisted => self.get_by(Mechanism::Assisted, page, gap),
            Mechanism::Kcas => self.get_by(Mechanism::Kcas, page, gap),
        }
    }

    #[inline(always)]
    fn get_by(
        &self,
        mechanism: Mechanism,
        page: u64,
        gap: &mut impl FnMut(Version) -> Version,
    ) -> Option<T> {
        let child = self.trees.child(page, mechanism)?;
        until_unchanged(|| self.entry_at(child, gap(child.begin()), page))
    }

    /// Loads the entry of a page, if the version is unchanged afterwards.
    #[inline(always)]
    fn entry_at(
        &self,
        child: ChildRef<'_>,
        version: Version,
        page: u64,
    ) -> Result<Option<T>, Changed> {
        let value = self.entry(child, page).and_then(|entry| entry.load(child));
        child.check(version).map(|()| value)
    }

    /// Returns the entries of the 64 pages in whose leaf a page is, the first of which has the
    /// number `page & !63`, as of one time. No atomic instruction.
    pub fn snapshot(&self, page: u64) -> Leaf<T> {
        let Some(child) = self.child(page) else {
            return [None; ENTRIES];
        };
        until_unchanged(|| {
            let version = child.begin();
            let entries = match self.leaf(child, page) {
                Some(leaf) => entries_of(child, leaf),
                None => [None; ENTRIES],
            };
            child.check(version).map(|()| entries)
        })
    }

    /// Stores the entry of a page, and returns the one that it replaces. Adds the tables that it
    /// needs. One atomic instruction under OS-assisted DCAS if it needs none.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`]: the page number is beyond the address space. [`Error::LimitReached`],
    /// [`Error::OutOfMemory`]: there is no memory for a table.
    #[inline]
    pub fn insert(&self, page: u64, value: T) -> Result<Option<T>, Error> {
        self.insert_from(page, value, VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`List::try_insert_between`](super::List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn insert_between(
        &self,
        page: u64,
        value: T,
        gap: impl FnMut(Version) -> Version,
    ) -> Result<Option<T>, Error> {
        self.insert_from(page, value, super::nodes::begin_with(gap))
    }

    #[inline(always)]
    fn insert_from(
        &self,
        page: u64,
        value: T,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Result<Option<T>, Error> {
        if page >= Self::PAGES {
            return Err(Error::TooLarge);
        }
        let child = self.child_or_new(page)?;
        until_unchanged(|| {
            let version = begin(&child.versioned);
            let Some(entry) = self.entry(child, page) else {
                child.check(version)?;
                return match self.add_table(child, version, page) {
                    // The next attempt finds the table, or that it was unloaded.
                    Ok(()) => Err(Changed::Seen),
                    Err(error) => Ok(Err(error)),
                };
            };
            let old = entry.load(child);
            entry.store(child, version, value)?;
            Ok(Ok(old))
        })
    }

    /// Replaces the entry of a page by the result of `change`. Returns the old entry, or `None` if
    /// the page has none. One atomic instruction under OS-assisted DCAS.
    ///
    /// `change` is called again, with the entry at that time, if another thread has changed one of
    /// the same 8,192 pages meanwhile. Only the result of its last call is stored. It runs while
    /// the operation holds nothing; if it panics, nothing has changed. A `change` that changes one
    /// of these pages itself is called without end.
    pub fn update(&self, page: u64, mut change: impl FnMut(T) -> T) -> Option<T> {
        let child = self.child(page)?;
        until_unchanged(|| {
            let version = child.begin();
            let entry = self.entry(child, page);
            let there = entry.and_then(|entry| Some((entry.load(child)?, entry)));
            // Without this check, `change` could get an entry that was never there.
            child.check(version)?;
            let Some((old, entry)) = there else {
                return Ok(None);
            };
            entry.store(child, version, change(old))?;
            Ok(Some(old))
        })
    }

    /// Removes the entry of a page, and returns it. Its table stays, until it is
    /// [unloaded](PageMap::unload). One atomic instruction under OS-assisted DCAS.
    #[inline]
    pub fn remove(&self, page: u64) -> Option<T> {
        self.remove_from(page, VersionedWords::begin)
    }

    /// Does the same, with `gap` right after each read of the version: see
    /// [`List::try_insert_between`](super::List::try_insert_between).
    #[cfg(any(test, feature = "unstable-internals"))]
    pub fn remove_between(&self, page: u64, gap: impl FnMut(Version) -> Version) -> Option<T> {
        self.remove_from(page, super::nodes::begin_with(gap))
    }

    fn remove_from(
        &self,
        page: u64,
        mut begin: impl FnMut(&VersionedWords) -> Version,
    ) -> Option<T> {
        let child = self.child(page)?;
        until_unchanged(|| {
            let version = begin(&child.versioned);
            let entry = self.entry(child, page);
            let Some((entry, old)) = entry.and_then(|entry| Some((entry, entry.load(child)?)))
            else {
                return child.check(version).map(|()| None);
            };
            child.store(version, (entry.first, 0))?;
            Ok(Some(old))
        })
    }

    /// Returns the number of modifications plus 1 of the 8,192 pages around a page, entries and
    /// tables (GC96, section 5.3). Interrupted attempts may count too, as for
    /// [`Domain::version`](crate::dcas::Domain::version). `None`: the page is beyond the address
    /// space, or nothing was ever inserted into the 4 GiB around it.
    pub fn version(&self, page: u64) -> Option<Version> {
        self.child(page).map(|child| child.versioned.version())
    }

    /// Returns the mechanism that this map uses.
    pub fn mechanism(&self) -> Mechanism {
        self.trees.mechanism()
    }

    /// Returns the maximum number of tables for 64 pages.
    pub fn limit(&self) -> usize {
        self.leaves.limit()
    }

    /// Returns the child below which a page is, if the directories above it are there.
    #[inline(always)]
    fn child(&self, page: u64) -> Option<ChildRef<'_>> {
        if page >= Self::PAGES {
            return None;
        }
        self.trees.child(page, self.trees.mechanism())
    }

    fn child_or_new(&self, page: u64) -> Result<ChildRef<'_>, Error> {
        match self.child(page) {
            Some(child) => Ok(child),
            None => self.trees.child_or_new(page).ok_or(Error::OutOfMemory),
        }
    }

    /// Returns the leaf of a page.
    #[inline(always)]
    fn leaf(&self, child: ChildRef<'_>, page: u64) -> Option<&Words> {
        // SAFETY: the link of a child leads to a table of this map's pool.
        let table = unsafe { self.words_at(child.load(child.link())) }?;
        // SAFETY: a link in a table leads to a leaf of this map's pool.
        unsafe { self.words_at(child.load(&table[table_index(page)])) }
    }

    /// Returns the entry of a page, whether it is present or not, if its leaf is there.
    #[inline(always)]
    fn entry(&self, child: ChildRef<'_>, page: u64) -> Option<Entry<'_>> {
        Some(Entry::of(self.leaf(child, page)?, page as usize % ENTRIES))
    }

    /// Returns the table or leaf at an address that a link has held, or `None` for 0.
    ///
    /// # Safety
    ///
    /// The address is 0, or that of a table or a leaf of this map.
    #[inline(always)]
    unsafe fn words_at(&self, address: u64) -> Option<&Words> {
        if address == 0 {
            return None;
        }
        // SAFETY: the caller's promise. Both pools keep their memory mapped, and of that type,
        // while the map lives.
        Some(unsafe { &*with_exposed_provenance::<Words>(address as usize) })
    }

    /// Adds the highest table that is missing above a page, if the version is unchanged.
    #[cold]
    fn add_table(&self, child: ChildRef<'_>, version: Version, page: u64) -> Result<(), Error> {
        // SAFETY: the link of a child leads to a table of this map's pool.
        let table = unsafe { self.words_at(child.load(child.link())) };
        let (pool, link) = match table {
            None => (&self.tables, child.link()),
            Some(table) => (&self.leaves, &table[table_index(page)]),
        };
        if child.load(link) != 0 {
            return Ok(());
        }
        let new = pool.allocate()?;
        // A free table or leaf holds zeros.
        if child.store(version, (link, address(&*new))).is_ok() {
            new.into_raw();
        }
        Ok(())
    }
}

// In callers of another crate too: a lookup takes little longer than a call.
#[inline(always)]
fn table_index(page: u64) -> usize {
    page as usize / ENTRIES % WIDTH
}

/// Returns all entries of a leaf.
fn entries_of<T: Plain>(child: ChildRef<'_>, leaf: &Words) -> Leaf<T> {
    std::array::from_fn(|index| Entry::of(leaf, index).load(child))
}

/// The bytes of an entry that fit into the first word, with the bit that says that it is present.
const BYTES: usize = 7;

/// That bit in an entry of two words. It lies behind what the first word has of 14 bytes.
const PRESENT: u64 = 1 << (2 * BYTES * 8 - 63);

/// Returns how many bits of an entry its second word holds: all under OS-assisted DCAS, so that a
/// value of 8 bytes is one word. Under k-CAS covered words hold values below 2^63.
#[inline(always)]
const fn bits_of_second(mechanism: Mechanism) -> u32 {
    match mechanism {
        Mechanism::Assisted => 64,
        Mechanism::Kcas => 63,
    }
}

/// An entry in a leaf.
///
/// ```text
/// up to 7 bytes    first   63 … 57 zero | 56 … 1 value | 0 present
/// up to 14 bytes   first   63 … 50 zero | 49 present | 48 … 0 the value's bits behind the second
///                  second  the value's first 64 bits; under k-CAS 63
/// ```
#[derive(Clone, Copy)]
struct Entry<'a> {
    first: &'a StableWord,
    second: &'a StableWord,
}

impl<'a> Entry<'a> {
    #[inline(always)]
    fn of(leaf: &'a Words, index: usize) -> Entry<'a> {
        Entry {
            first: &leaf[2 * index],
            second: &leaf[2 * index + 1],
        }
    }

    /// Returns the value. It counts only if the version is unchanged afterwards.
    #[inline(always)]
    fn load<T: Plain>(self, child: ChildRef<'_>) -> Option<T> {
        let first = child.load(self.first);
        if first == 0 {
            return None;
        }
        let all = match size_of::<T>() > BYTES {
            true => {
                let second = u128::from(child.load(self.second));
                second | u128::from(first) << bits_of_second(child.mechanism())
            }
            false => u128::from(first >> 1),
        };
        let bytes = all.to_le_bytes();
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: the type has at most 14 bytes, which are copied from 16.
        unsafe {
            value
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(bytes.as_ptr(), size_of::<T>());
        }
        // SAFETY: all bytes were written, and every bit pattern is a value of a plain type.
        Some(unsafe { value.assume_init() })
    }

    /// Stores a value if the version is unchanged.
    #[inline(always)]
    fn store<T: Plain>(
        self,
        child: ChildRef<'_>,
        version: Version,
        value: T,
    ) -> Result<(), Changed> {
        let mut bytes = [0; 16];
        bytes[..size_of::<T>()].copy_from_slice(plain::bytes(&value));
        let all = u128::from_le_bytes(bytes);
        match size_of::<T>() > BYTES {
            true => {
                let bits = bits_of_second(child.mechanism());
                let first = (all >> bits) as u64 | PRESENT;
                let second = all as u64 & (u64::MAX >> (64 - bits));
                child.store_both(version, (self.first, first), (self.second, second))
            }
            false => child.store(version, (self.first, (all as u64) << 1 | 1)),
        }
    }
}

impl<T: Plain> Default for PageMap<T> {
    fn default() -> Self {
        PageMap::new()
    }
}

impl<T: Plain, const BITS: u32> fmt::Debug for PageMap<T, BITS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageMap")
            .field("pages", &Self::PAGES)
            .field("limit", &self.limit())
            .finish_non_exhaustive()
    }
}
