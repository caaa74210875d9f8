//! References that may have become stale, and know it.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use super::descriptor::Descriptor;
use super::layout::Framed;
use super::unclaimed;

/// One allocation of a descriptor: its address and version. Anybody may keep one for as long as the
/// pool lives, and look whether it still means what it meant.
///
/// The version grows when the descriptor is allocated and when it is freed, and never repeats (on
/// 64-bit targets), also when its page goes back to the system in between.
pub struct Reference<'pool, T> {
    framed: NonNull<Framed<T>>,
    version: usize,
    pool: PhantomData<&'pool T>,
}

// SAFETY: a reference to a descriptor, which threads share.
unsafe impl<T: Descriptor> Send for Reference<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Descriptor> Sync for Reference<'_, T> {}

impl<'pool, T: Descriptor> Reference<'pool, T> {
    /// # Safety
    ///
    /// A descriptor of a pool that lives for `'pool`.
    pub(super) unsafe fn new(framed: NonNull<Framed<T>>, version: usize) -> Reference<'pool, T> {
        Reference {
            framed,
            version,
            pool: PhantomData,
        }
    }

    pub(super) fn framed(&self) -> &'pool Framed<T> {
        // SAFETY: the promise to `new`: it is there as long as the pool, and only shared.
        unsafe { self.framed.as_ref() }
    }

    /// Does the allocation that this refers to still last? Already history when it returns.
    pub fn is_current(&self) -> bool {
        // Acquire: pairs with the Release of whoever freed it or allocated it again.
        self.framed().header.version.load(Ordering::Acquire) == self.version
    }

    /// Looks at the descriptor; `None` if the allocation had ended by the time the look was over.
    ///
    /// What `read` returns was read while the allocation lasted. But not at one time: the owner may
    /// have changed it meanwhile, and only a version number of its own can tell. Wait-free, without
    /// an atomic instruction.
    pub fn read<R>(&self, read: impl FnOnce(&'pool T) -> R) -> Option<R> {
        if !self.is_current() {
            return None;
        }
        let result = read(&self.framed().descriptor);
        // Acquire: what was read comes before the look at the version; pairs with the fence in
        // `Pool::allocate`, which comes before what a later owner writes.
        fence(Ordering::Acquire);
        self.is_current().then_some(result)
    }

    /// Ends the allocation and begins another one, of the same descriptor. `false`: it had ended.
    pub(super) fn renew(&self) -> bool {
        let header = &self.framed().header;
        let is_renewed = unclaimed::renew(&header.version, &header.unclaimed, self.version);
        // Release: as in `Pool::allocate`.
        fence(Ordering::Release);
        is_renewed
    }

    /// The descriptor, whoever has it now. It is an instance of `T`, and that is all.
    pub fn descriptor(&self) -> &'pool T {
        &self.framed().descriptor
    }

    /// Where the descriptor lies: a multiple of 64.
    pub fn address(&self) -> usize {
        self.framed.as_ptr().expose_provenance()
    }

    /// Claims the descriptor, for the next audit; costs one atomic instruction. `false`: this
    /// allocation has ended.
    pub fn claim(&self) -> bool {
        unclaimed::claim(&self.framed().header.unclaimed);
        self.is_current()
    }
}

impl<T> Clone for Reference<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Reference<'_, T> {}

impl<T> PartialEq for Reference<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.framed == other.framed && self.version == other.version
    }
}

impl<T> Eq for Reference<'_, T> {}

impl<T> fmt::Debug for Reference<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reference")
            .field("address", &self.framed)
            .field("version", &self.version)
            .finish()
    }
}
