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

use std::ptr::{NonNull, null_mut};

use super::{ENTRIES, WIDTH};
use crate::dcas::{Mechanism, StableWord, Version, VersionedWords};
use crate::mappings;
use crate::nonblocking::nodes::Changed;
use crate::sync::{AtomicPtr, Ordering};

/// The width of a directory.
const DIRECTORY: usize = 256;

/// The number of pages below a child.
const PAGES_OF_CHILD: u64 = (WIDTH * ENTRIES) as u64;

/// The number of pages of a tree: those of 4 GiB.
const PAGES_OF_TREE: u64 = WIDTH as u64 * PAGES_OF_CHILD;

/// A child of a tree's root: a version, and the link to the table that it covers.
#[repr(C)]
pub(super) struct Child {
    pub(super) versioned: VersionedWords,
    pub(super) link: StableWord,
}

impl Child {
    /// Returns the value of a covered word.
    #[inline(always)]
    pub(super) fn load(&self, word: &StableWord) -> u64 {
        self.versioned.load(word)
    }

    /// Returns `Ok` if the version is unchanged, so that everything read since counts.
    #[inline(always)]
    pub(super) fn check(&self, version: Version) -> Result<(), Changed> {
        match self.versioned.is_still(version) {
            true => Ok(()),
            false => Err(Changed::Seen),
        }
    }

    /// Stores to one word below this child if the version is unchanged.
    #[inline(always)]
    pub(super) fn store(&self, version: Version, word: (&StableWord, u64)) -> Result<(), Changed> {
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
        &self,
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
    fn forestalled(&self) -> Result<(), Changed> {
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
            versioned: VersionedWords::with_mechanism(mechanism),
            link: StableWord::default(),
        };
        // SAFETY: the memory has room for a tree, which consists of that many children, and the
        // caller alone has it.
        unsafe { first.add(index).write(child) };
    }
}

/// What there is above the tables of a map.
pub(super) struct Trees {
    mechanism: Mechanism,
    top: Top,
}

enum Top {
    Tree(NonNull<Tree>),
    Directory(NonNull<Directory<Directory<Tree>>>),
}

// SAFETY: the trees and directories belong to this value alone, and consist of words that all
// threads may access.
unsafe impl Send for Trees {}
// SAFETY: the same.
unsafe impl Sync for Trees {}

impl Trees {
    pub(super) fn new(mechanism: Mechanism, is_wide: bool) -> Option<Trees> {
        // What works here, which may differ from what is asked for.
        let mechanism = VersionedWords::with_mechanism(mechanism).mechanism();
        let top = match is_wide {
            false => Top::Tree(mapped(|tree| write_tree(tree, mechanism))?),
            // Zeros are null pointers.
            true => Top::Directory(mapped(|_| ())?),
        };
        Some(Trees { mechanism, top })
    }

    pub(super) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Returns the child below which a page is, if it is there. `is_wide` is what it was for `new`.
    #[inline(always)]
    pub(super) fn child(&self, page: u64, is_wide: bool) -> Option<&Child> {
        let number = page / PAGES_OF_TREE;
        let tree = match &self.top {
            // SAFETY: the tree is unmapped only when this value is dropped.
            Top::Tree(tree) if !is_wide => unsafe { tree.as_ref() },
            // SAFETY: the directory is unmapped only when this value is dropped.
            Top::Directory(directory) if is_wide => unsafe { directory.as_ref() }
                .get(number / DIRECTORY as u64)?
                .get(number)?,
            _ => return None,
        };
        Some(&tree.0[(page / PAGES_OF_CHILD) as usize % WIDTH])
    }

    /// Returns the child below which a page is; maps what is missing above it.
    #[cold]
    pub(super) fn child_or_new(&self, page: u64) -> Option<&Child> {
        let Top::Directory(directory) = &self.top else {
            return self.child(page, false);
        };
        let number = page / PAGES_OF_TREE;
        // SAFETY: the directory is unmapped only when this value is dropped.
        let directory = unsafe { directory.as_ref() };
        directory
            .get_or_map(number / DIRECTORY as u64, |_| ())?
            .get_or_map(number, |tree| write_tree(tree, self.mechanism))?;
        self.child(page, true)
    }
}

impl Drop for Trees {
    fn drop(&mut self) {
        /// Unmaps a tree.
        ///
        /// # Safety
        ///
        /// The tree was mapped, and no thread uses it any more.
        unsafe fn end(tree: NonNull<Tree>) {
            // SAFETY: the caller's promise.
            for child in unsafe { &tree.as_ref().0 } {
                // Rolls back or completes what an exited thread left unfinished.
                child.versioned.begin();
            }
            // SAFETY: the caller's promise.
            unsafe { unmap(tree) };
        }
        match self.top {
            // SAFETY: this value is owned exclusively.
            Top::Tree(tree) => unsafe { end(tree) },
            Top::Directory(directory) => {
                // SAFETY: this value is owned exclusively.
                for middle in unsafe { &directory.as_ref().0 } {
                    let Some(middle) = NonNull::new(middle.load(Ordering::Relaxed)) else {
                        continue;
                    };
                    // SAFETY: the same.
                    for tree in unsafe { &middle.as_ref().0 } {
                        if let Some(tree) = NonNull::new(tree.load(Ordering::Relaxed)) {
                            // SAFETY: the same.
                            unsafe { end(tree) };
                        }
                    }
                    // SAFETY: the same.
                    unsafe { unmap(middle) };
                }
                // SAFETY: the same.
                unsafe { unmap(directory) };
            }
        }
    }
}
