//! The order in which a list keeps its keys.

use std::cmp::Ordering;

use crate::nonblocking::Plain;

/// Keys in ascending order, each at most once.
#[derive(Clone, Copy, Debug)]
pub struct Ascending;

/// The newest entry first; keys may repeat.
#[derive(Clone, Copy, Debug)]
pub struct Unordered;

/// The order of a list: [`Ascending`] or [`Unordered`].
pub trait Arrangement<K>: sealed::Sealed<K> {}

impl<K, A: sealed::Sealed<K>> Arrangement<K> for A {}

use sealed::Found;

pub(super) mod sealed {
    /// What a search does at a node: it continues, it has passed the key's place, or it has found
    /// the key.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Found {
        GoesOn,
        ItsPlace,
        ItIsThere,
    }

    impl Found {
        #[inline(always)]
        pub fn is_there(self) -> bool {
            self == Found::ItIsThere
        }
    }

    pub trait Sealed<K>: Sized {
        /// Whether a new key goes to the front. Otherwise it goes to the place where the search
        /// ended.
        const NEW_ONES_FIRST: bool;

        fn compare(in_the_list: &K, sought: &K) -> Found;
    }
}

impl<K: Plain + Ord> sealed::Sealed<K> for Ascending {
    const NEW_ONES_FIRST: bool = false;

    #[inline(always)]
    fn compare(in_the_list: &K, sought: &K) -> Found {
        match in_the_list.cmp(sought) {
            Ordering::Less => Found::GoesOn,
            Ordering::Equal => Found::ItIsThere,
            Ordering::Greater => Found::ItsPlace,
        }
    }
}

impl<K: Plain + PartialEq> sealed::Sealed<K> for Unordered {
    const NEW_ONES_FIRST: bool = true;

    #[inline(always)]
    fn compare(in_the_list: &K, sought: &K) -> Found {
        match in_the_list == sought {
            true => Found::ItIsThere,
            false => Found::GoesOn,
        }
    }
}
