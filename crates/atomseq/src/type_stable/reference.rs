//! References to allocations that detect when the allocation has ended.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use super::descriptor::Descriptor;
use super::layout::Framed;
use super::unclaimed;

/// One allocation of a descriptor, identified by its address and version. It may be kept while the
/// pool lives, and reports whether its allocation still lasts.
///
/// The version increases when the descriptor is allocated and when it is freed. It never repeats on
/// 64-bit targets, even if the page was given back to the system in between.
pub struct Reference<'pool, T> {
    framed: NonNull<Framed<T>>,
    version: usize,
    pool: PhantomData<&'pool T>,
}

// SAFETY: it acts as a `&T`, and `Descriptor` requires `T: Sync`.
unsafe impl<T: Descriptor> Send for Reference<'_, T> {}
// SAFETY: a shared `Reference` gives access only to a `&T`, and `Descriptor` requires `T: Sync`.
unsafe impl<T: Descriptor> Sync for Reference<'_, T> {}

impl<'pool, T: Descriptor> Reference<'pool, T> {
    /// # Safety
    ///
    /// `framed` must point to a descriptor of a pool that lives for `'pool`.
    pub(super) unsafe fn new(framed: NonNull<Framed<T>>, version: usize) -> Reference<'pool, T> {
        Reference {
            framed,
            version,
            pool: PhantomData,
        }
    }

    pub(super) fn framed(&self) -> &'pool Framed<T> {
        // SAFETY: by the contract of `new`, the descriptor belongs to a pool that lives for
        // `'pool`. Its memory stays mapped and valid that long, and no `&mut` to it exists.
        unsafe { self.framed.as_ref() }
    }

    /// Returns whether the allocation still lasts. The answer may be outdated when this returns.
    /// Wait-free; costs one load.
    pub fn is_current(&self) -> bool {
        // Acquire: pairs with the Release store of the version when the descriptor is freed or
        // allocated again.
        self.framed().header.version.load(Ordering::Acquire) == self.version
    }

    /// Reads the descriptor with `read`, and returns its result, or `None` if the allocation ended
    /// before `read` returned.
    ///
    /// All values were read while the allocation lasted, but not at a single moment: the owner may
    /// have changed the contents meanwhile. To detect that, keep a version number in the contents.
    /// Wait-free apart from `read` itself; costs no atomic instruction.
    pub fn read<R>(&self, read: impl FnOnce(&'pool T) -> R) -> Option<R> {
        if !self.is_current() {
            return None;
        }
        let result = read(&self.framed().descriptor);
        // Acquire: orders the reads above before the load of the version. Pairs with the Release
        // fence in `Pool::hand_out`, which precedes the stores of a later owner.
        fence(Ordering::Acquire);
        self.is_current().then_some(result)
    }

    /// Ends this allocation and starts another of the same descriptor. Returns `false` if it had
    /// already ended.
    pub(super) fn renew(&self) -> bool {
        let header = &self.framed().header;
        let is_renewed = unclaimed::renew(&header.version, &header.unclaimed, self.version);
        // Release: orders the new version before the stores of the new owner. Pairs with the
        // Acquire fence in `read`.
        fence(Ordering::Release);
        is_renewed
    }

    /// Returns the descriptor, whichever allocation it belongs to now. Only its type is guaranteed.
    pub fn descriptor(&self) -> &'pool T {
        &self.framed().descriptor
    }

    /// Returns the address of the descriptor, a multiple of 64.
    pub fn address(&self) -> usize {
        self.framed.as_ptr().expose_provenance()
    }

    /// Claims the descriptor, so that the next [audit](super::Pool::audit) does not report it.
    /// Returns `false` if this allocation has ended. Wait-free; costs one atomic instruction.
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
