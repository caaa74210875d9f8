//! An array of values of one machine word, all 64 bits of it, that an object covers.
//!
//! Under k-CAS a covered word holds 63 bits. There, the top bits have an array of words of their own.

use std::alloc::{Layout, alloc_zeroed};

use super::object::Object;
use super::{Mechanism, StableWord, Word, kcas};
use crate::memory::Descriptor;
use crate::sync::Ordering;

/// Values that are covered by the object that they were made for; zeros at first.
#[derive(Debug)]
pub(crate) struct Cells {
    words: Box<[StableWord]>,
    /// The top bits; none unless by k-CAS.
    tops: Box<[StableWord]>,
}

impl Cells {
    /// `None` if there is no memory for so many.
    pub fn new(object: &Object, count: usize) -> Option<Cells> {
        let tops = match object.mechanism() {
            Mechanism::Assisted => 0,
            Mechanism::Kcas => count,
        };
        Some(Cells {
            words: zeros(count)?,
            tops: zeros(tops)?,
        })
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// The value of a cell; counts only if the object is still at the version of the beginning.
    #[inline(always)]
    pub fn load(&self, object: &Object, index: usize) -> u64 {
        let low = object.load(&self.words[index]);
        match object.mechanism() {
            Mechanism::Assisted => low,
            Mechanism::Kcas => low | object.load(&self.tops[index]) << 63,
        }
    }

    #[inline(always)]
    pub(super) fn word(&self, index: usize) -> &StableWord {
        &self.words[index]
    }

    /// What has to be stored where, under k-CAS.
    pub(super) fn halves(&self, index: usize, value: u64) -> [(&StableWord, u64); 2] {
        [
            (&self.words[index], value & Word::MOST),
            (&self.tops[index], value >> 63),
        ]
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        if self.tops.is_empty() {
            return;
        }
        for word in self.words.iter().chain(&self.tops) {
            kcas::release(word.raw().load(Ordering::Relaxed));
        }
    }
}

/// Memory that the system gives as zeros is not touched before it is used. `None`: there is not so much.
pub(crate) fn zeros<D: Descriptor>(count: usize) -> Option<Box<[D]>> {
    let layout = Layout::array::<D>(count).ok()?;
    if layout.size() == 0 {
        return Some(Box::default());
    }
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        return None;
    }
    let all = std::ptr::slice_from_raw_parts_mut(memory.cast::<D>(), count);
    // SAFETY: allocated with the layout of such a slice, and zeros are a descriptor.
    Some(unsafe { Box::from_raw(all) })
}
