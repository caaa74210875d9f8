//! The part of a page map that is never deleted: trees' children, each with its version, and the
//! directories of a map for 48-bit addresses.
//!
//! ```text
//! 48 bits:  directory (256) ──> directory (256) ──> tree (128 children)     of 4 GiB of addresses
//! 32 bits:                                          tree (128 children)
//! ```
//!
//! Directories and trees are mapped when they are first needed, so that a signal handler may do
//! that. Their links are set once, by a compare-and-swap; a thread that loses unmaps its own.

use std::ops::Deref;
use std::ptr::{NonNull, null_mut};

use super::{ENTRIES, WIDTH};
use crate::dcas::{Mechanism, Reader, StableWord, Version, VersionedWords};
use crate::mappings;
use crate::nonblocking::nodes::Changed;
use crate::sync::{AtomicPtr, Ordering};

/// The width of a directory.
const DIRECTORY: usize = 256;

/// The number of pages below a child.
const PAGES_OF_CHILD: u64 = (WIDTH * ENTRIES) as u64;

/// The number of pages of a tree: those of 4 GiB.
const PAGES_OF_TREE: u64 = WIDTH as u64 * PAGES_OF_CHILD;

/// A child of a tree's root: a version, with the link to the table that it covers.
pub(super) struct Child {
    pub(super) versioned: VersionedWords,
}

impl Child {
    /// Returns the link to the table. It lies beside the version, so that a lookup loads one cache
    /// line of a child.
    #[inline(always)]
    pub(super) fn link(&self) -> &StableWord {
        self.versioned.attached()
    }
}

/// A child in use.
#[derive(Clone, Copy)]
pub(super) struct ChildRef<'a> {
    child: &'a Child,
    reader: Reader<'a>,
}

impl Deref for ChildRef<'_> {
    type Target = Child;

    #[inline(always)]
    fn deref(&self) -> &Child {
        self.child
    }
}

impl<'a> ChildRef<'a> {
    #[inline(always)]
    fn of(child: &'a Child, mechanism: Mechanism) -> ChildRef<'a> {
        let reader = child.versioned.reader(mechanism);
        ChildRef { child, reader }
    }

    /// Returns the version and a child of OS-assisted DCAS, or `None` if the map uses k-CAS or
    /// another thread must be waited for. Loads the version alone.
    #[inline(always)]
    pub(super) fn at_once(child: &'a Child) -> Option<(Version, ChildRef<'a>)> {
        let (version, reader) = child.versioned.read_at_once()?;
        Some((version, ChildRef { child, reader }))
    }

    /// Returns the mechanism.
    #[inline(always)]
    pub(super) fn mechanism(self) -> Mechanism {
        self.reader.mechanism()
    }

    /// Returns the version at a time when no operation is unfinished.
    #[inline(always)]
    pub(super) fn begin(self) -> Version {
        self.reader.begin()
    }

    /// Returns the value of a covered word.
    #[inline(always)]
    pub(super) fn load(self, word: &StableWord) -> u64 {
        self.reader.load(word)
    }

    /// Returns `Ok` if the version is unchanged, so that everything read since counts.
    #[inline(always)]
    pub(super) fn check(self, version: Version) -> Result<(), Changed> {
        match self.reader.is_still(version) {
            true => Ok(()),
            false => Err(Changed::Seen),
        }
    }

    /// Stores to one word below this child if the version is unchanged.
    #[inline(always)]
    pub(super) fn store(self, version: Version, word: (&StableWord, u64)) -> Result<(), Changed> {
        // SAFETY: at this version the word is below this child, or in a table that the caller alone
        // owns since it has unlinked it there. So only this `versioned` changes it if the version
        // is unchanged. The memory of tables lives as long as the map.
        match unsafe { self.versioned.store_if(version, word) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    /// Stores to two different words below this child if the version is unchanged.
    #[inline(always)]
    pub(super) fn store_both(
        self,
        version: Version,
        first: (&StableWord, u64),
        second: (&StableWord, u64),
    ) -> Result<(), Changed> {
        // SAFETY: as in `store`, and the words are different: those of an entry, or neighbours.
        match unsafe { self.versioned.store_pair_if(version, first, second) } {
            true => Ok(()),
            false => self.forestalled(),
        }
    }

    #[cold]
    fn forestalled(self) -> Result<(), Changed> {
        self.versioned.back_off();
        Err(Changed::Forestalled)
    }
}

/// A tree's root.
struct Tree([Child; WIDTH]);

/// Zeros are valid: there is nothing below it.
struct Directory<T>([AtomicPtr<T>; DIRECTORY]);

/// Maps memory for a value and writes it there.
fn mapped<T>(write: impl FnOnce(NonNull<T>)) -> Option<NonNull<T>> {
    let memory = mappings::map(size_of::<T>())?.cast::<T>();
    write(memory);
    Some(memory)
}

/// Unmaps a value.
///
/// # Safety
///
/// The value was mapped by `mapped`, and no thread uses it any more.
unsafe fn unmap<T>(value: NonNull<T>) {
    // SAFETY: the caller's promise. The type needs no drop: it consists of words.
    unsafe { mappings::unmap(value.cast(), size_of::<T>()) }
}

impl<T> Directory<T> {
    #[inline(always)]
    fn slot(&self, number: u64) -> &AtomicPtr<T> {
        &self.0[number as usize % DIRECTORY]
    }

    #[inline(always)]
    fn get(&self, number: u64) -> Option<&T> {
        // Acquire: pairs with the release of the exchange in `get_or_map`.
        let value = NonNull::new(self.slot(number).load(Ordering::Acquire))?;
        // SAFETY: it was initialized before it was published, and is unmapped only with the map,
        // which `self` is a part of.
        Some(unsafe { value.as_ref() })
    }

    fn get_or_map(&self, number: u64, write: impl FnOnce(NonNull<T>)) -> Option<&T> {
        if self.get(number).is_none() {
            let new = mapped(write)?;
            // Release: publishes the value; pairs with the acquire in `get`.
            let set = self.slot(number).compare_exchange(
                null_mut(),
                new.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if set.is_err() {
                // SAFETY: this call has mapped it, and has not published it.
                unsafe { unmap(new) };
            }
        }
        self.get(number)
    }
}

/// Writes an empty tree.
fn write_tree(tree: NonNull<Tree>, mechanism: Mechanism) {
    let first = tree.cast::<Child>();
    for index in 0..WIDTH {
        let child = Child {
            versioned: VersionedWords::like(mechanism),
        };
        // SAFETY: the memory has room for a tree, which consists of that many children, and the
        // caller alone has it.
        unsafe { first.add(index).write(child) };
    }
}

/// What there is above the tables of a map for addresses of that many bits: 32 or 48.
pub(super) struct Trees<const BITS: u32> {
    mechanism: Mechanism,
    /// The tree, or for 48 bits the directory.
    top: NonNull<u8>,
}

/// The directory of a map for 48-bit addresses.
type Top = Directory<Directory<Tree>>;

// SAFETY: the trees and directories belong to this value alone, and consist of words that all
// threads may access.
unsafe impl<const BITS: u32> Send for Trees<BITS> {}
// SAFETY: the words of trees and directories are atomic.
unsafe impl<const BITS: u32> Sync for Trees<BITS> {}

impl<const BITS: u32> Trees<BITS> {
    pub(super) fn new(mechanism: Mechanism) -> Option<Trees<BITS>> {
        // What works here, which may differ from what is asked for.
        let mechanism = VersionedWords::with_mechanism(mechanism).mechanism();
        let top = match BITS {
            32 => mapped(|tree| write_tree(tree, mechanism))?.cast(),
            // Zeros are null pointers.
            _ => mapped::<Top>(|_| ())?.cast(),
        };
        Some(Trees { mechanism, top })
    }

    #[inline(always)]
    pub(super) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Returns the tree of a map for 32-bit addresses, or else the directory.
    #[inline(always)]
    fn top(&self) -> Result<&Tree, &Top> {
        match BITS {
            // SAFETY: `new` has mapped a tree for this number of bits, which is unmapped only when
            // this value is dropped.
            32 => Ok(unsafe { self.top.cast::<Tree>().as_ref() }),
            // SAFETY: `new` has mapped a directory for other numbers of bits, also until the drop.
            _ => Err(unsafe { self.top.cast::<Top>().as_ref() }),
        }
    }

    /// Returns the child below which a page is, if it is there. A caller that passes the mechanism
    /// of the map as a constant gets code for this one alone.
    #[inline(always)]
    pub(super) fn child(&self, page: u64, mechanism: Mechanism) -> Option<ChildRef<'_>> {
        Some(ChildRef::of(self.place(page)?, mechanism))
    }

    /// Returns the place of the child below which a page is, if it is there.
    #[inline(always)]
    pub(super) fn place(&self, page: u64) -> Option<&Child> {
        let number = page / PAGES_OF_TREE;
        let tree = match self.top() {
            Ok(tree) => tree,
            Err(top) => top.get(number / DIRECTORY as u64)?.get(number)?,
        };
        let index = (page / PAGES_OF_CHILD) as usize % WIDTH;
        Some(&tree.0[index])
    }

    /// Returns the child below which a page is; maps what is missing above it.
    #[cold]
    pub(super) fn child_or_new(&self, page: u64) -> Option<ChildRef<'_>> {
        if let Err(top) = self.top() {
            let number = page / PAGES_OF_TREE;
            top.get_or_map(number / DIRECTORY as u64, |_| ())?
                .get_or_map(number, |tree| write_tree(tree, self.mechanism))?;
        }
        self.child(page, self.mechanism)
    }
}

/// Unmaps a tree.
///
/// # Safety
///
/// The tree was mapped, and no thread uses it any more.
unsafe fn unmap_tree(tree: NonNull<Tree>) {
    // SAFETY: the caller's promise.
    for child in unsafe { &tree.as_ref().0 } {
        // Rolls back or completes what an exited thread left unfinished.
        child.versioned.begin();
    }
    // SAFETY: the caller's promise.
    unsafe { unmap(tree) };
}

impl<const BITS: u32> Drop for Trees<BITS> {
    fn drop(&mut self) {
        if BITS == 32 {
            // SAFETY: this value is owned exclusively, and its top is a tree.
            return unsafe { unmap_tree(self.top.cast()) };
        }
        let top = self.top.cast::<Top>();
        // SAFETY: this value is owned exclusively, and its top is a directory.
        for middle in unsafe { &top.as_ref().0 } {
            // Relaxed, here and below: the value is owned exclusively.
            let Some(middle) = NonNull::new(middle.load(Ordering::Relaxed)) else {
                continue;
            };
            // SAFETY: what a slot leads to was mapped, and is owned exclusively.
            for tree in unsafe { &middle.as_ref().0 } {
                if let Some(tree) = NonNull::new(tree.load(Ordering::Relaxed)) {
                    // SAFETY: what a slot leads to was mapped, and is owned exclusively.
                    unsafe { unmap_tree(tree) };
                }
            }
            // SAFETY: what a slot leads to was mapped, and is owned exclusively.
            unsafe { unmap(middle) };
        }
        // SAFETY: the directory was mapped, and is owned exclusively.
        unsafe { unmap(top) };
    }
}
