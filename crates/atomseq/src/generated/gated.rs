//! Memory accesses of the `gated` form.
//!
//! Single-copy atomic, like the instructions of the other forms: a reader outside the gate may look
//! at a committed word while it changes.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

macro_rules! access {
    ($($(#[$doc:meta])* $name:ident: $atomic:ident, $method:ident, $ordering:ident ($($value:ident as $word:ty)?) $(-> $result:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The address must be aligned and valid for the access, and change only by atomic
        /// accesses or under the gate the caller holds.
                #[inline(always)]
        pub unsafe fn $name(address: usize $(, $value: usize)?) $(-> $result)? {
            // SAFETY: the caller's promise is `from_ptr`'s.
            let word = unsafe { $atomic::from_ptr(address as *mut _) };
            word.$method($($value as $word,)? Ordering::$ordering) $(as $result)?
        }
    )*};
}

access! {
    /// Relaxed: the gate orders it.
    load: AtomicUsize, load, Relaxed () -> usize;
    /// Relaxed: the gate orders it.
    load32: AtomicU32, load, Relaxed () -> usize;
    /// Acquire: pairs with `commit_release`.
    load_acquire: AtomicUsize, load, Acquire () -> usize;
    /// Relaxed: the gate orders it.
    store: AtomicUsize, store, Relaxed (value as usize);
    /// Relaxed: the gate orders it.
    store32: AtomicU32, store, Relaxed (value as u32);
    /// Release: pairs with `load_acquire`, and with readers outside the gate.
    store_release: AtomicUsize, store, Release (value as usize);
}

macro_rules! own {
    ($($name:ident: $word:ty;)*) => {$(
        /// Loads from memory that only this thread uses. Unlike an atomic access it needs no right
        /// to write there: a sequence may copy from what its caller has shared.
        ///
        /// # Safety
        ///
        /// The address must be aligned and valid for the access, and no other thread may store
        /// there meanwhile.
                #[inline(always)]
        pub unsafe fn $name(address: usize) -> usize {
            // SAFETY: the caller's promise. Volatile: one access of the whole word, as an
            // instruction's is.
            unsafe { std::ptr::with_exposed_provenance::<$word>(address).read_volatile() as usize }
        }
    )*};
}

own! {
    load_own: usize;
    load32_own: u32;
}

/// Stores a word if another is there; returns what was there.
///
/// # Safety
///
/// As for the other accesses.
#[inline(always)]
pub unsafe fn compare_exchange(address: usize, expected: usize, new: usize) -> usize {
    // SAFETY: the caller's promise is `from_ptr`'s.
    let word = unsafe { AtomicUsize::from_ptr(address as *mut _) };
    // Acquire: pairs with the release that gave the word back; what follows is ordered by the gate.
    match word.compare_exchange(expected, new, Ordering::Acquire, Ordering::Acquire) {
        Ok(found) | Err(found) => found,
    }
}

/// Copies words.
///
/// # Safety
///
/// Both ranges must be aligned and valid for `words` words, must not overlap, and belong to whoever
/// holds the gate. For no words, any addresses will do.
#[inline]
pub unsafe fn copy(to: usize, from: usize, words: usize) {
    if words == 0 {
        return;
    }
    // SAFETY: the caller's promise. `MaybeUninit`, for a copied element may have padding.
    unsafe {
        std::ptr::copy_nonoverlapping(
            from as *const std::mem::MaybeUninit<u64>,
            to as *mut std::mem::MaybeUninit<u64>,
            words,
        );
    }
}
