//! Elements on their way between a caller and a ring: padded to whole words, and moved in parts.

use std::mem::{ManuallyDrop, MaybeUninit};

/// An element, padded to whole words of eight bytes.
#[repr(C, align(8))]
pub(crate) union Padded<T> {
    element: ManuallyDrop<MaybeUninit<T>>,
    _word: [u64; 0],
}

impl<T> Padded<T> {
    pub(crate) const fn new(element: MaybeUninit<T>) -> Padded<T> {
        Padded {
            element: ManuallyDrop::new(element),
        }
    }

    /// Returns the element.
    ///
    /// # Safety
    ///
    /// It is initialized, and the caller owns it.
    #[inline(always)]
    pub(crate) unsafe fn into_element(self) -> T {
        // SAFETY: the caller guarantees an initialized element that it owns.
        unsafe { ManuallyDrop::into_inner(self.element).assume_init() }
    }
}

/// Moves `count` elements in parts. `part` gets the number of those that have been moved, and
/// returns how many more it has moved; 0 ends it. Returns the sum.
#[inline(always)]
pub(crate) fn in_parts(count: usize, mut part: impl FnMut(usize) -> usize) -> usize {
    let mut moved = 0;
    while moved < count {
        let now = part(moved);
        if now == 0 {
            break;
        }
        moved += now;
    }
    moved
}

/// Removes the elements from the front of a vector that `take` copies out of it, without dropping
/// them. Returns their number.
///
/// # Safety
///
/// `take` gets the address of the elements and their number, and returns how many of them it owns
/// afterwards, from the first on.
#[inline(always)]
pub(crate) unsafe fn take_front<T>(
    elements: &mut Vec<T>,
    take: impl FnOnce(*const T, usize) -> usize,
) -> usize {
    let taken = take(elements.as_ptr(), elements.len());
    let rest = elements.len() - taken;
    // SAFETY: the caller guarantees that `take` owns the first `taken` elements. The rest is moved
    // to the front, and the new length is that of the rest.
    unsafe {
        let start = elements.as_mut_ptr();
        std::ptr::copy(start.add(taken), start, rest);
        elements.set_len(rest);
    }
    taken
}
