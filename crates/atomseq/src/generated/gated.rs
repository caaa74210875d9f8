//! Memory accesses of the `gated` form.
//!
//! Each is single-copy atomic, like the instructions of the other forms, because a reader without
//! the gate may load a committed word while it changes.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

macro_rules! access {
    ($($(#[$doc:meta])* $name:ident: $atomic:ident, $method:ident, $ordering:ident ($($value:ident as $word:ty)?) $(-> $result:ty)?;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The address is aligned and valid for the access. Other code changes the memory only by
        /// atomic accesses, or under the gate that the caller holds.
        #[inline(always)]
        pub unsafe fn $name(address: usize $(, $value: usize)?) $(-> $result)? {
            // SAFETY: the caller guarantees an aligned and valid address without data races, as
            // `from_ptr` requires.
            let word = unsafe { $atomic::from_ptr(address as *mut _) };
            word.$method($($value as $word,)? Ordering::$ordering) $(as $result)?
        }
    )*};
}

access! {
    /// Loads a word. Relaxed: closing the gate orders it.
    load: AtomicUsize, load, Relaxed () -> usize;
    /// Loads four bytes. Relaxed: closing the gate orders it.
    load32: AtomicU32, load, Relaxed () -> usize;
    /// Loads a word. Acquire: pairs with `commit_release`.
    load_acquire: AtomicUsize, load, Acquire () -> usize;
    /// Stores a word. Relaxed: opening the gate orders it.
    store: AtomicUsize, store, Relaxed (value as usize);
    /// Stores four bytes. Relaxed: opening the gate orders it.
    store32: AtomicU32, store, Relaxed (value as u32);
    /// Stores a word. Release: pairs with `load_acquire`, and with readers without the gate.
    store_release: AtomicUsize, store, Release (value as usize);
}

macro_rules! own {
    ($($name:ident: $word:ty;)*) => {$(
        /// Loads from memory that only this thread uses. Unlike an atomic access it does not
        /// require write permission, so a sequence may copy from memory that its caller has
        /// borrowed as shared.
        ///
        /// # Safety
        ///
        /// The address is aligned and valid for the access, and no other thread stores there
        /// meanwhile.
        #[inline(always)]
        pub unsafe fn $name(address: usize) -> usize {
            // SAFETY: the caller guarantees an aligned and valid address and no concurrent stores.
            // Volatile: one access of the whole word, as the instruction in the other forms.
            unsafe { std::ptr::with_exposed_provenance::<$word>(address).read_volatile() as usize }
        }
    )*};
}

own! {
    load_own: usize;
    load32_own: u32;
}

/// Stores `new` if the word is `expected`. Returns the previous word.
///
/// # Safety
///
/// The address is aligned and valid for the access. Other code changes the word only by atomic
/// accesses, or under the gate that the caller holds.
#[inline(always)]
pub unsafe fn compare_exchange(address: usize, expected: usize, new: usize) -> usize {
    // SAFETY: the caller guarantees an aligned and valid address without data races, as `from_ptr`
    // requires.
    let word = unsafe { AtomicUsize::from_ptr(address as *mut _) };
    // Acquire: pairs with the release store that last freed the word. Opening the gate orders the
    // stores that follow.
    match word.compare_exchange(expected, new, Ordering::Acquire, Ordering::Acquire) {
        Ok(found) | Err(found) => found,
    }
}

/// Copies words.
///
/// # Safety
///
/// Both ranges are aligned and valid for `words` words, do not overlap, and are accessed by no
/// other code while the caller holds the gate. If `words` is 0, any addresses are allowed.
#[inline]
pub unsafe fn copy(to: usize, from: usize, words: usize) {
    if words == 0 {
        return;
    }
    // SAFETY: the caller guarantees two valid ranges that do not overlap. `MaybeUninit`, because an
    // element may have padding.
    unsafe {
        std::ptr::copy_nonoverlapping(
            from as *const std::mem::MaybeUninit<u64>,
            to as *mut std::mem::MaybeUninit<u64>,
            words,
        );
    }
}
